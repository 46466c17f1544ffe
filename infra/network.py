"""The VPC."""

from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from infra import settings
from infra.nag import acknowledge

NO_ROUTES = "Nothing here adds routes: the VPC and its way out belong to whoever made it."


class Network(Construct):
    """An existing VPC with security groups."""

    def __init__(self, scope: Construct, network: settings.Network) -> None:
        super().__init__(scope, "Network")
        self.vpc = ec2.Vpc.from_vpc_attributes(
            self,
            "Vpc",
            vpc_id=network.vpc_id,
            availability_zones=list(network.zones),
            private_subnet_ids=list(network.private_subnets),
        )
        acknowledge(self.vpc, NO_ROUTES, "@aws-cdk/aws-ec2:noSubnetRouteTableId")
        self.group = self._group("Inside", "DocsToKG functions and search domain")
        self.group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS APIs and models")
        self.group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(7687), "Bolt to the graph")
        self.group.add_ingress_rule(self.group, ec2.Port.tcp(443), "Functions to the domain")

        # For readers of untrusted files: only S3 can be reached.
        self.reading = self._group("Reading", "DocsToKG: readers of documents")
        addresses = ec2.Peer.prefix_list(network.s3_prefix_list)
        self.reading.add_egress_rule(addresses, ec2.Port.tcp(443), "S3")

    def _group(self, construct_id: str, about: str) -> ec2.SecurityGroup:
        return ec2.SecurityGroup(
            self, construct_id, vpc=self.vpc, description=about, allow_all_outbound=False
        )
