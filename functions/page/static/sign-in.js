// Sign-in at the issuer that the deployment names: authorization code with PKCE (S256), in a window
// of its own. So this tab stays, and verifier, state, nonce and token never leave its memory.
const WINDOW = "popup,width=520,height=680";
let waiting = null;

const base64url = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
const random = () => base64url(crypto.getRandomValues(new Uint8Array(32)));
const problem = (detail) => ({ title: "You are not signed in", detail, errors: [] });

function claimsOf(token) {
  const text = atob(token.split(".")[1].replaceAll("-", "+").replaceAll("_", "/"));
  return JSON.parse(new TextDecoder().decode(Uint8Array.from(text, (one) => one.codePointAt(0))));
}

// The window that comes back speaks on a channel named by `state`: nobody else knows that name, so
// what another site makes a browser open here is heard by no one.
function returned(state) {
  waiting?.abort();
  waiting = new AbortController();
  const { signal } = waiting;
  return new Promise((resolve, reject) => {
    const channel = new BroadcastChannel(`docstokg sign-in ${state}`);
    channel.onmessage = ({ data }) => { channel.postMessage("heard"); channel.close(); resolve(data); };
    signal.addEventListener("abort", () => { channel.close(); reject(null); });
  });
}

// Give `{token, name}` of who signed in; throws a problem to show, or null when begun anew.
export async function signIn({ client_id, authorize_url, token_url, scope }) {
  // Opened within the click, before anything is awaited: browsers refuse it later.
  const opened = window.open("about:blank", "_blank", WINDOW);
  if (!opened) throw problem("The browser did not open a window. Allow pop-ups for this page and try again.");
  const [verifier, state, nonce] = [random(), random(), random()];
  const redirect_uri = new URL("signed-in", location.href).href;
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(verifier));
  const address = new URL(authorize_url);
  const asked = { response_type: "code", client_id, redirect_uri, scope, state, nonce, code_challenge: base64url(new Uint8Array(digest)), code_challenge_method: "S256" };
  for (const [name, value] of Object.entries(asked)) address.searchParams.set(name, value);
  const back = returned(state);
  opened.location.replace(address.href);
  const { code, error } = await back;
  if (!code) throw problem(`The sign-in page says: ${error ?? "no reason"}.`);
  const body = new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri, client_id, code_verifier: verifier });
  let given;
  try {
    const response = await fetch(token_url, { method: "POST", body, credentials: "omit", redirect: "error" });
    given = await response.json();
  } catch {
    throw problem("The issuer of tokens gave no answer that this page may read. Does it allow this page's origin?");
  }
  if (!given.access_token) throw problem(`The issuer gave no token: ${given.error_description ?? given.error ?? "no reason"}.`);
  return { token: given.access_token, name: nameIn(given, { client_id, scope, nonce }) };
}

// The id token came straight from the issuer, over TLS: what must be shown is that it is of this
// sign-in and for this page. The API checks signature and rights of the access token.
function nameIn(given, { client_id, scope, nonce }) {
  if (!scope.split(" ").includes("openid")) return "";
  let claims;
  try { claims = claimsOf(given.id_token); } catch { throw problem("The issuer's answer has no readable id token."); }
  if (claims.nonce !== nonce || ![claims.aud].flat().includes(client_id)) throw problem("The issuer's answer belongs to another sign-in. Try again.");
  return claims.email ?? claims.preferred_username ?? claims.name ?? claims.sub ?? "";
}
