"""Topics of alarms."""

from aws_cdk import aws_kms as kms
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.nag import acknowledge
from infra.rights import own_service


def alert_topic(scope: Construct, name: str, key: kms.IKey, email: str) -> sns.Topic:
    """Create and return a topic for alarms and the budget; `email` is subscribed unless empty."""
    topic = sns.Topic(Construct(scope, name), "Topic", master_key=key, enforce_ssl=True)
    # Replaces the default policy for the owner's alarms; without the key's policy, messages are
    # lost.
    for service in ("cloudwatch", "budgets"):
        topic.grant_publish(own_service(scope, service))
    if email:
        topic.add_subscription(subscriptions.EmailSubscription(email))
        by_mail = "Mail to people: the alarm itself keeps its state and history in CloudWatch."
        acknowledge(topic, by_mail, "Serverless-SNSRedrivePolicy")
    return topic
