"""Whose a name is: the rule that merges names with CURIEs."""

from docstokg.domain.identity import entity_id
from docstokg.domain.text.folding import alias_keys
from docstokg.loading.names.candidates import Labels
from docstokg.loading.names.naming import Aliases, Names


def names_of(*entities: tuple[str, str, tuple[str, ...]]) -> Names:
    names = Names()
    for identity, name, synonyms in entities:
        names.add(
            (key, identity, is_preferred)
            for key, is_preferred in alias_keys(identity, name, synonyms)
        )
    return names


def test_a_name_belongs_to_its_only_curie():
    names = names_of(("HP:1", "Seizure", ("Fit",)), ("HP:2", "Ataxia", ("Fit",)))
    assert names.id_of_name("SEIZURE") == "HP:1"
    assert names.id_of_name("fit") == entity_id("fit")
    assert names.id_of_name("Unknown thing") == entity_id("unknown  THING")


def test_a_preferred_name_wins_over_another_s_synonym():
    names = names_of(("HP:1", "Fit", ()), ("HP:2", "Seizure", ("Fit",)))
    assert names.id_of_name("fit") == "HP:1"


def test_a_name_of_two_curies_belongs_to_neither():
    names = names_of(("HP:1", "Cold", ()), ("HP:2", "Cold", ()))
    assert names.id_of_name("Cold") == entity_id("cold")


def test_entities_taken_over_by_curies_are_not_linked():
    seizure = entity_id("Seizure")
    aliases = Aliases([("seizure", seizure, True)])
    aliases.put("HP:1", "Seizure", ())
    names = Names()
    names.add(aliases.of_curies())
    linking = set(aliases.for_linking(names, Labels(), set()))
    assert ("seizure", "HP:1", True) in linking
    assert all(entry[1] != seizure for entry in linking)


def test_this_loads_aliases_replace_the_stored_ones():
    aliases = Aliases([("fit", "HP:1", False), ("seizure", "HP:1", True), ("ataxia", "HP:2", True)])
    aliases.put("HP:1", "Seizure", ("Convulsion",))
    keys = {(key, identity) for key, identity, _ in aliases.all()}
    assert ("fit", "HP:1") not in keys
    assert {("convulsion", "HP:1"), ("ataxia", "HP:2")} <= keys


def test_a_replaced_terms_names_lead_to_its_successor():
    aliases = Aliases([])
    aliases.put("HP:1", "Old name", (), leads_to="HP:2")
    assert ("old name", "HP:2", False) in set(aliases.all())


def test_a_plural_is_not_the_name_of_another():
    john, johns = entity_id("John"), entity_id("Johns")
    aliases = Aliases([])
    aliases.put(john, "John", ())
    aliases.put(johns, "Johns", ())
    linking = set(aliases.for_linking(Names(), Labels(), set()))
    assert linking == {("john", john, True), ("johns", johns, True)}
