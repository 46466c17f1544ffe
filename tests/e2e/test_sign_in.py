"""Signing in to the page: a browser, an issuer on loopback, and the authoriser that believes it."""

import base64
import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, override
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from playwright.sync_api import Page

from docstokg.adapters.jwt_tokens import JwksTokens
from docstokg_functions.authorize.authorize import authorize
from docstokg_functions.page.page import SignIn
from tests.e2e.browser import PATIENCE_MS, launched, submit_question
from tests.e2e.stage import Quiet, behind_keys, gateway
from tests.model_server import listening

pytestmark = [pytest.mark.timeout(180), pytest.mark.xdist_group("browser")]
CLIENT = "page-client"
METHOD = "arn:aws:execute-api:eu-central-1:1:api/live/POST/v1/answer"


@dataclass
class Issuer:
    """An OpenID provider with one person; it holds a client to PKCE as RFC 7636 says."""

    address: str = ""
    key: Any = field(default_factory=lambda: rsa.generate_private_key(65537, 2048))
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    requests: list[dict[str, str]] = field(default_factory=list)
    refuses: str = ""
    lies: dict[str, str] = field(default_factory=dict)
    lives_s: int = 600

    def grant(self, form: dict[str, str]) -> tuple[int, dict[str, str]]:
        """Change a code for tokens, once, for who has its verifier."""
        begun = self.codes.pop(form.get("code", ""), None)
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        sent = form | {"code_challenge": challenge}
        names = ("code_challenge", "client_id", "redirect_uri")
        if (
            begun is None
            or any(sent[name] != begun[name] for name in names)
            or form["grant_type"] != "authorization_code"
        ):
            return 400, {"error": "invalid_grant"}
        base = {"iss": self.address, "sub": "ada", "exp": int(time.time()) + self.lives_s}
        access = {**base, "aud": "docstokg", "namespaces": ["default"]}
        identity = {**base, "aud": CLIENT, "nonce": begun["nonce"], "email": "ada@example.com"}
        sign = {"algorithm": "RS256", "headers": {"kid": "1"}}
        return 200, {
            "access_token": jwt.encode(access, self.key, **sign),
            "id_token": jwt.encode({**identity, **self.lies}, self.key, **sign),
        }


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    ours = Issuer()

    class Provider(Quiet):
        @override
        def do_GET(self) -> None:
            address = urlsplit(self.path)
            if address.path == "/jwks":
                public = jwt.algorithms.RSAAlgorithm.to_jwk(ours.key.public_key(), as_dict=True)
                keys = {"keys": [{**public, "kid": "1", "use": "sig", "alg": "RS256"}]}
                self.send(200, {"Content-Type": "application/json"}, json.dumps(keys).encode())
                return
            if address.path not in ("/authorize", "/consent"):
                self.send(404, {}, b"")
                return
            parameters = {name: values[0] for name, values in parse_qs(address.query).items()}
            ours.requests.append(parameters)
            if address.path == "/authorize":
                consent_url = f"/consent?{address.query}".replace('"', "")
                form = f'<a href="{consent_url}">Sign in as Ada</a>'.replace("&", "&amp;")
                # As issuers do: this cuts every tie between the window and who opened it.
                apart = {"Cross-Origin-Opener-Policy": "same-origin"}
                self.send(200, {"Content-Type": "text/html", **apart}, form.encode())
                return
            back = {"state": parameters["state"]}
            if ours.refuses:
                back |= {"error": "access_denied", "error_description": ours.refuses}
            else:
                back["code"] = f"code-{len(ours.requests)}"
                ours.codes[back["code"]] = parameters
            self.send(302, {"Location": f"{parameters['redirect_uri']}?{urlencode(back)}"}, b"")

        @override
        def do_POST(self) -> None:
            text = self.rfile.read(int(self.headers["Content-Length"])).decode()
            status, body = ours.grant({k: v[0] for k, v in parse_qs(text).items()})
            allowed = {"Access-Control-Allow-Origin": "*", "Content-Type": "application/json"}
            self.send(status, allowed, json.dumps(body).encode())

    with listening(Provider) as port:
        ours.address = f"http://127.0.0.1:{port}"
        yield ours


@pytest.fixture
def page(server_for: Any, tmp_path: Path, issuer: Issuer) -> Iterator[Page]:
    """The page below a stage, whose authoriser believes the issuer."""
    tokens = JwksTokens(issuer.address, "docstokg", f"{issuer.address}/jwks")

    def admits(headers: dict[str, str]) -> bool:
        policy = authorize({"headers": headers, "methodArn": METHOD}, tokens.caller, {})
        return bool(policy["policyDocument"]["Statement"][0]["Effect"] == "Allow")

    at = issuer.address
    client = SignIn(CLIENT, f"{at}/authorize?audience=docstokg", f"{at}/token", "openid email")
    with ExitStack() as stack:
        address, _ = stack.enter_context(gateway(behind_keys(server_for, tmp_path), admits, client))
        browser = stack.enter_context(launched())
        page = browser.new_context().new_page()
        page.goto(f"{address}/")
        yield page


def sign_in(page: Page, shown: str = "#who", text: str = "ada@example.com") -> None:
    """Click through the issuer's window, and wait until a text is shown."""
    with page.expect_popup() as opened:
        page.get_by_role("button", name="Sign in").click()
    opened.value.get_by_text("Sign in as Ada").click()
    page.locator(shown, has_text=text).wait_for(timeout=PATIENCE_MS)


def test_signing_in_brings_answers_and_nothing_is_kept(page: Page, issuer: Issuer) -> None:
    submit_question(page, "What are seizures?")
    assert "key" in page.locator("#problem").inner_text().lower()
    assert page.evaluate("document.activeElement.id") == "sign-in"
    sign_in(page)
    submit_question(page, "What are seizures?")
    assert "[1]" in page.locator("#answer").inner_text()
    (begun, consent) = issuer.requests
    assert begun["code_challenge_method"] == "S256" and begun["audience"] == "docstokg"
    assert len({begun["state"], begun["nonce"], begun["code_challenge"]}) == 3
    assert consent["redirect_uri"].endswith("/live/signed-in")
    assert page.url.endswith("/live/")
    stored = "JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])"
    assert page.evaluate(stored) == '[{},{},""]'
    assert "Bearer $DOCSTOKG_TOKEN" in page.locator("#curl").inner_text()
    page.get_by_role("button", name="Sign out").click()
    submit_question(page, "What are seizures?")
    assert page.locator("#problem").is_visible()


def test_an_expired_sign_in_is_reported_and_renewed(page: Page, issuer: Issuer) -> None:
    issuer.lives_s = -60
    sign_in(page)
    submit_question(page, "What are seizures?")
    assert page.locator("#who").inner_text() == "Your sign-in is no longer valid."
    issuer.lives_s = 600
    sign_in(page)
    submit_question(page, "What are seizures?")
    assert "[1]" in page.locator("#answer").inner_text()


@pytest.mark.parametrize("lie", [{"nonce": "of another"}, {"aud": "another"}])
def test_an_answer_to_another_sign_in_is_refused(
    page: Page, issuer: Issuer, lie: dict[str, str]
) -> None:
    issuer.lies = lie
    sign_in(page, "#problem", "another sign-in")
    submit_question(page, "What are seizures?")
    assert not page.locator("#answer").is_visible()


def test_a_code_nobody_requested_is_ignored(page: Page, issuer: Issuer) -> None:
    with page.expect_popup():
        page.get_by_role("button", name="Sign in").click()
    forged = page.context.new_page()
    forged.goto(f"{page.url}signed-in?code=stolen&state=guessed")
    forged.get_by_text("not open any more").wait_for(timeout=PATIENCE_MS)
    assert "stolen" not in forged.url
    assert page.locator("#who").inner_text().startswith("Waiting")
    assert not issuer.codes
