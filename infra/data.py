"""The search index domain."""

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_opensearchservice as opensearch
from constructs import Construct

from infra.base import Stack
from infra.nag import acknowledge, shared_arn
from infra.network import Network
from infra.removal import log_group, removal
from infra.rights import allow, own_service, policy_of

# The version that the tests run (tests/services.py).
ENGINE = "OpenSearch_3.5"
# Read-only APIs in use.
READS = ("_search", "_msearch", "_mget", "_count", "_mapping")
ANY_INDEX = (
    "The loader makes and fills indexes whose names it chooses, inside this one domain; no "
    "function has this policy."
)
VERBS = [f"es:ESHttp{verb}" for verb in ("Get", "Post", "Put", "Delete", "Head")]
OWN_INDICES = "The indices of one environment: their names begin with its own."


class SearchData(Construct):
    """The index."""

    def __init__(self, stack: Stack, network: Network | None) -> None:
        super().__init__(stack, "Search")
        self._environment = stack.target
        index = stack.target.index
        if index.kind == "existing":
            self.url, self.arn = index.endpoint, index.arn
            self.domain_name = index.arn.rpartition("/")[2]
            self._shared = index.arn
        else:
            domain = self._domain(stack, network)
            self.url = f"https://{domain.attr_domain_endpoint}"
            self.arn, self.domain_name = domain.attr_arn, domain.ref
            self._shared = shared_arn(self, "IndexArn", self.arn)
        # For the role that runs `docstokg load` or `make index-...`.
        every = iam.PolicyStatement(actions=VERBS, resources=[f"{self.arn}/*"])
        purpose = "load and delete chunks and facts of one environment"
        self.loader = policy_of(self, "Loader", purpose, [every], ANY_INDEX)

    def grant_read(self, role: iam.Role) -> None:
        """Allow `role` to search and read by id only."""
        name = self._environment.index_name
        paths = ["_msearch", "_mget"]
        kinds = (name, f"{name}-facts", f"{name}-documents")
        paths += [f"{index}/{operation}" for index in kinds for operation in READS]
        allow(role, ["es:ESHttpGet", "es:ESHttpPost"], *(f"{self.arn}/{path}" for path in paths))

    def grant_load(self, role: iam.Role) -> None:
        """Allow `role` to create, fill and close this environment's indices only."""
        name = self._environment.index_name
        shared = ("_aliases", "_msearch", "_mget")
        kinds = (name, f"{name}-*", f"{name}/*", f"{name}-*/*", *shared)
        allow(role, VERBS, *(f"{self._shared}/{kind}" for kind in kinds), stars=OWN_INDICES)

    def _domain(self, stack: Stack, network: Network | None) -> opensearch.CfnDomain:
        index, environment = self._environment.index, self._environment
        name = f"docstokg-{environment.name}"
        groups = {
            kind: log_group(
                self,
                kind.title().replace("_", ""),
                stack,
                f"/aws/vendedlogs/opensearch/{name}/{kind.lower()}",
            )
            for kind in ("SEARCH_SLOW_LOGS", "INDEX_SLOW_LOGS", "ES_APPLICATION_LOGS")
        }
        statement = iam.PolicyStatement(
            principals=[own_service(stack, "es")],
            actions=["logs:PutLogEvents", "logs:CreateLogStream"],
            resources=[group.log_group_arn for group in groups.values()],
        )
        delivery = iam.PolicyDocument(statements=[statement]).to_json()
        log_policy = logs.CfnResourcePolicy(
            self,
            "LogDelivery",
            policy_name=f"{name}-opensearch",
            policy_document=stack.to_json_string(delivery),
        )
        domain = opensearch.CfnDomain(
            self,
            "Domain",
            engine_version=ENGINE,
            cluster_config={
                "instanceType": index.instance_type,
                "instanceCount": index.data_nodes,
                "dedicatedMasterEnabled": index.managers > 0,
                "dedicatedMasterCount": index.managers or None,
                "dedicatedMasterType": index.manager_type if index.managers else None,
                "zoneAwarenessEnabled": index.zones > 1,
                "zoneAwarenessConfig": {"availabilityZoneCount": index.zones}
                if index.zones > 1
                else None,
            },
            ebs_options={"ebsEnabled": True, "volumeSize": index.volume_gib, "volumeType": "gp3"},
            encryption_at_rest_options={"enabled": True, "kmsKeyId": stack.key.key_id},
            node_to_node_encryption_options={"enabled": True},
            domain_endpoint_options={
                "enforceHttps": True,
                "tlsSecurityPolicy": "Policy-Min-TLS-1-2-PFS-2023-10",
            },
            log_publishing_options={
                kind: {"cloudWatchLogsLogGroupArn": group.log_group_arn, "enabled": True}
                for kind, group in groups.items()
            },
            vpc_options={
                "securityGroupIds": [network.group.security_group_id],
                "subnetIds": [
                    subnet.subnet_id for subnet in network.vpc.private_subnets[: index.zones]
                ],
            }
            if network
            else None,
        )
        # Otherwise a new ENGINE creates a new, empty domain.
        domain.cfn_options.update_policy = cdk.CfnUpdatePolicy(enable_version_upgrade=True)
        domain.add_resource_dependency(log_policy)
        domain.apply_removal_policy(removal(retain=environment.retain_data))
        iam_only = (
            "The domain has no resource policy, so only roles of this account whose own policy "
            "names a path of it are let in, each request signed (SigV4); no address is trusted."
        )
        acknowledge(domain, iam_only, "AwsSolutions-OS3", "AwsSolutions-OS5")
        if network is None:
            set_one = "set `network` to move functions and domain into one."
            why = f"{environment.name} has no VPC, so that an empty account can run it; {set_one}"
            acknowledge(domain, why, "AwsSolutions-OS1")
        if index.managers == 0:
            why = (
                f"{environment.name} has {index.data_nodes} data nodes and keeps its quorum among "
                "them; nodes for management alone would cost more than the data's."
            )
            acknowledge(domain, why, "AwsSolutions-OS4")
        if index.zones == 1:
            why = f"{environment.name} may be down for a zone outage; its content is reloadable."
            acknowledge(domain, why, "AwsSolutions-OS7")
        return domain
