// A command that a POSIX shell runs as pasted: single quotes keep everything but themselves.
export const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

// `names`: of the headers that are sent with a secret, which the command takes from the shell.
export function curlOf(url, request, names) {
  const secrets = { "X-Api-Key": "$DOCSTOKG_KEY", Authorization: "Bearer $DOCSTOKG_TOKEN" };
  const key = names.map((name) => ` \\\n  -H "${name}: ${secrets[name]}"`).join("");
  return `curl -s ${quoted(url)} \\\n  -H 'Content-Type: application/json'${key} \\\n  -d ${quoted(JSON.stringify(request))}`;
}
