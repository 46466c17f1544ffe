// Schema of the knowledge graph, version 3. Each statement may be run again.
CREATE CONSTRAINT chunk_uuid IF NOT EXISTS FOR (c:Chunk) REQUIRE c.uuid IS UNIQUE;
CREATE INDEX chunk_namespace IF NOT EXISTS FOR (c:Chunk) ON (c.namespace);
CREATE CONSTRAINT document_key IF NOT EXISTS FOR (d:Document) REQUIRE d.key IS UNIQUE;
CREATE CONSTRAINT topic_key IF NOT EXISTS FOR (t:Topic) REQUIRE t.key IS UNIQUE;
CREATE CONSTRAINT entity_key IF NOT EXISTS FOR (e:Entity) REQUIRE e.key IS UNIQUE;
CREATE INDEX entity_folded IF NOT EXISTS FOR (e:Entity) ON (e.folded);
CREATE INDEX entity_namespace IF NOT EXISTS FOR (e:Entity) ON (e.namespace);
CREATE INDEX entity_dirty IF NOT EXISTS FOR (e:Entity) ON (e.dirty);
CREATE INDEX entity_obsolete IF NOT EXISTS FOR (e:Entity) ON (e.obsolete);
CREATE CONSTRAINT alias_key IF NOT EXISTS FOR (a:Alias) REQUIRE a.key IS UNIQUE;
CREATE INDEX alias_namespace IF NOT EXISTS FOR (a:Alias) ON (a.namespace);
CREATE INDEX relation_evidence IF NOT EXISTS FOR ()-[r:RELATED_TO]-() ON (r.evidence_uuid);
CREATE INDEX relation_unproven IF NOT EXISTS FOR ()-[r:RELATED_TO]-() ON (r.unproven);
CREATE CONSTRAINT store_name IF NOT EXISTS FOR (s:Store) REQUIRE s.name IS UNIQUE;
CREATE INDEX mention_rank IF NOT EXISTS FOR ()-[m:MENTIONS]-() ON (m.entity, m.degree, m.chunk);
CREATE INDEX mention_about IF NOT EXISTS FOR ()-[m:MENTIONS]-() ON (m.heads, m.degree, m.chunk);
