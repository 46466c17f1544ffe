// Where the issuer sends the browser back: hands the code to the tab that asked, and closes.
const given = new URLSearchParams(location.search);
// The code is of use once, and only with that tab's verifier; still it need not stay in a history.
history.replaceState(null, "", location.pathname);
const say = (text) => { document.getElementById("said").textContent = text; };
const channel = new BroadcastChannel(`docstokg sign-in ${given.get("state")}`);
const unheard = setTimeout(() => say("The page that asked for this is not open any more, or asked anew. Close this window and sign in there again."), 3000);
channel.onmessage = () => { clearTimeout(unheard); say("Done. You can close this window."); window.close(); };
channel.postMessage({ code: given.get("code"), error: given.get("error_description") ?? given.get("error") });
