"""The only package that knows CDK: it names the other folders and never imports them."""
