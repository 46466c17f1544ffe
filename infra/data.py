"""Where chunks and facts are searched: an existing domain, a managed one, or serverless."""

from __future__ import annotations

import json

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_logs as logs
from aws_cdk import aws_opensearchserverless as serverless
from aws_cdk import aws_opensearchservice as opensearch
from constructs import Construct

from infra.nag import acknowledge, logical_id
from infra.settings import Environment

ENGINE = "OpenSearch_3.1"
# What the service calls on the aliases of chunks and facts; what writes is missing on purpose.
INDEXES = ("docstokg", "docstokg-facts")
READS = ("_search", "_msearch", "_mget", "_count", "_mapping")


class SearchData(Construct):
    """The index: its URL, how requests to it are signed, and who may read or load it."""

    url: str
    auth: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        environment: Environment,
        key: kms.IKey,
        vpc: ec2.IVpc | None,
        security_group: ec2.ISecurityGroup | None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._environment = environment
        self._arn_as_reported = environment.index.arn
        self._collection: serverless.CfnCollection | None = None
        index = environment.index
        match index.kind:
            case "existing":
                self.url, self.auth, self.arn = index.endpoint, "sigv4-es", index.arn
            case "managed":
                domain = self._domain(key, vpc, security_group)
                self.url = f"https://{domain.attr_domain_endpoint}"
                self.auth, self.arn = "sigv4-es", domain.attr_arn
                self._arn_as_reported = f"<{logical_id(domain)}.Arn>"
            case "serverless":
                self._collection = self._serverless(key)
                self.url = self._collection.attr_collection_endpoint
                self.auth, self.arn = "sigv4-aoss", self._collection.attr_arn
        self.loader = self._loader()

    def grant_read(self, role: iam.IRole, function: str) -> None:
        """Let the role of `function` search and read by id, nothing else."""
        if self._collection is None:
            paths = ["_msearch", "_mget"]
            paths += [f"{index}/{read}" for index in INDEXES for read in READS]
            self._allow(
                role,
                ["es:ESHttpGet", "es:ESHttpPost"],
                [f"{self.arn}/{path}" for path in paths],
            )
        else:
            self._data_policy(
                function,
                role.role_arn,
                ["aoss:ReadDocument", "aoss:DescribeIndex"],
                self._collection,
            )
            self._allow(role, ["aoss:APIAccessAll"], [self.arn])

    def _allow(self, grantee: iam.IGrantable, actions: list[str], resources: list[str]) -> None:
        iam.Grant.add_to_principal(grantee=grantee, actions=actions, resource_arns=resources)

    def _loader(self) -> iam.ManagedPolicy:
        """What an operator attaches to the role that runs `docstokg load`."""
        if self._collection is None:
            actions = ["es:ESHttpGet", "es:ESHttpPost", "es:ESHttpPut", "es:ESHttpDelete"]
            actions.append("es:ESHttpHead")
            resources = [f"{self.arn}/*"]
        else:
            actions, resources = ["aoss:APIAccessAll"], [self.arn]
        policy = iam.ManagedPolicy(
            self,
            "Loader",
            description="DocsToKG: load and delete chunks and facts of one environment",
            statements=[iam.PolicyStatement(actions=actions, resources=resources)],
        )
        acknowledge(
            policy,
            {
                f"AwsSolutions-IAM5[Resource::{self._arn_as_reported}/*]": (
                    "The loader makes and fills indexes whose names it chooses, inside this one "
                    "domain; no function has this policy."
                )
            },
        )
        return policy

    def _domain(
        self,
        key: kms.IKey,
        vpc: ec2.IVpc | None,
        security_group: ec2.ISecurityGroup | None,
    ) -> opensearch.CfnDomain:
        index, environment = self._environment.index, self._environment
        name = f"docstokg-{environment.name}"
        groups = {
            kind: logs.LogGroup(
                self,
                kind.title().replace("_", ""),
                log_group_name=f"/aws/vendedlogs/opensearch/{name}/{kind.lower()}",
                retention=logs.RetentionDays.ONE_MONTH,
                encryption_key=key,
                removal_policy=cdk.RemovalPolicy.DESTROY,
            )
            for kind in ("SEARCH_SLOW_LOGS", "INDEX_SLOW_LOGS", "ES_APPLICATION_LOGS")
        }
        stack = cdk.Stack.of(self)
        log_policy = logs.CfnResourcePolicy(
            self,
            "LogDelivery",
            policy_name=f"{name}-opensearch",
            policy_document=stack.to_json_string(
                {
                    "Version": "2012-10-17",
                    "Statement": [
                        {
                            "Effect": "Allow",
                            "Principal": {"Service": "es.amazonaws.com"},
                            "Action": ["logs:PutLogEvents", "logs:CreateLogStream"],
                            "Resource": [group.log_group_arn for group in groups.values()],
                            "Condition": {"StringEquals": {"aws:SourceAccount": stack.account}},
                        }
                    ],
                }
            ),
        )
        domain = opensearch.CfnDomain(
            self,
            "Domain",
            domain_name=name,
            engine_version=ENGINE,
            cluster_config=opensearch.CfnDomain.ClusterConfigProperty(
                instance_type=index.instance_type,
                instance_count=index.data_nodes,
                dedicated_master_enabled=index.managers > 0,
                dedicated_master_count=index.managers or None,
                dedicated_master_type=index.manager_type if index.managers else None,
                zone_awareness_enabled=index.zones > 1,
                zone_awareness_config=opensearch.CfnDomain.ZoneAwarenessConfigProperty(
                    availability_zone_count=index.zones
                )
                if index.zones > 1
                else None,
            ),
            ebs_options=opensearch.CfnDomain.EBSOptionsProperty(
                ebs_enabled=True, volume_size=index.volume_gib, volume_type="gp3"
            ),
            encryption_at_rest_options=opensearch.CfnDomain.EncryptionAtRestOptionsProperty(
                enabled=True, kms_key_id=key.key_id
            ),
            node_to_node_encryption_options=opensearch.CfnDomain.NodeToNodeEncryptionOptionsProperty(
                enabled=True
            ),
            domain_endpoint_options=opensearch.CfnDomain.DomainEndpointOptionsProperty(
                enforce_https=True, tls_security_policy="Policy-Min-TLS-1-2-PFS-2023-10"
            ),
            log_publishing_options={
                kind: opensearch.CfnDomain.LogPublishingOptionProperty(
                    cloud_watch_logs_log_group_arn=group.log_group_arn, enabled=True
                )
                for kind, group in groups.items()
            },
            vpc_options=opensearch.CfnDomain.VPCOptionsProperty(
                security_group_ids=[security_group.security_group_id],
                subnet_ids=[subnet.subnet_id for subnet in vpc.private_subnets[: index.zones]],
            )
            if vpc is not None and security_group is not None
            else None,
        )
        domain.add_resource_dependency(log_policy)
        domain.apply_removal_policy(
            cdk.RemovalPolicy.RETAIN if environment.retain_data else cdk.RemovalPolicy.DESTROY
        )
        iam_only = (
            "The domain has no resource policy, so only roles of this account whose own policy "
            "names a path of it are let in, each request signed (SigV4); no address is trusted."
        )
        reasons = {"AwsSolutions-OS3": iam_only, "AwsSolutions-OS5": iam_only}
        if vpc is None:
            reasons["AwsSolutions-OS1"] = (
                f"{environment.name} has no VPC, so that an empty account can run it; "
                "set `network` to move functions and domain into one."
            )
        if index.managers == 0:
            reasons["AwsSolutions-OS4"] = (
                f"{environment.name} is one data node, so there is no quorum of managers to keep."
            )
        if index.zones == 1:
            reasons["AwsSolutions-OS7"] = (
                f"{environment.name} may be down for a zone outage; its content is reloadable."
            )
        acknowledge(domain, reasons)
        return domain

    def _serverless(self, key: kms.IKey) -> serverless.CfnCollection:
        name = f"docstokg-{self._environment.name}"
        rule = {"ResourceType": "collection", "Resource": [f"collection/{name}"]}
        encryption = serverless.CfnSecurityPolicy(
            self,
            "Encryption",
            name=name,
            type="encryption",
            policy=cdk.Stack.of(self).to_json_string({"Rules": [rule], "KmsARN": key.key_arn}),
        )
        network = serverless.CfnSecurityPolicy(
            self,
            "Reach",
            name=name,
            type="network",
            policy=json.dumps([{"Rules": [rule], "AllowFromPublic": True}]),
            description="Reachable over TLS by signed requests of the roles in the data policy",
        )
        collection = serverless.CfnCollection(
            self,
            "Collection",
            name=name,
            type="VECTORSEARCH",
            standby_replicas="ENABLED" if self._environment.index.standby_replicas else "DISABLED",
        )
        collection.add_resource_dependency(encryption)
        collection.add_resource_dependency(network)
        collection.apply_removal_policy(
            cdk.RemovalPolicy.RETAIN if self._environment.retain_data else cdk.RemovalPolicy.DESTROY
        )
        if self._environment.index.loader_role_arn:
            self._data_policy(
                "loader", self._environment.index.loader_role_arn, ["aoss:*"], collection
            )
        return collection

    def _data_policy(
        self, who: str, role_arn: str, permissions: list[str], collection: serverless.CfnCollection
    ) -> None:
        """Serverless asks twice: this data policy, and the role's own IAM policy."""
        name = f"docstokg-{self._environment.name}"
        policy = serverless.CfnAccessPolicy(
            self,
            f"Data{who.title()}",
            name=f"{name}-{who}",
            type="data",
            policy=cdk.Stack.of(self).to_json_string(
                [
                    {
                        "Rules": [
                            {
                                "ResourceType": "index",
                                "Resource": [f"index/{name}/*"],
                                "Permission": permissions,
                            }
                        ],
                        "Principal": [role_arn],
                    }
                ]
            ),
        )
        policy.add_resource_dependency(collection)
