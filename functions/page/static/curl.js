// A command that a POSIX shell runs as pasted: single quotes keep everything but themselves.
export const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function curlOf(url, request, withKey) {
  const key = withKey ? ` \\\n  -H "X-Api-Key: $DOCSTOKG_KEY"` : "";
  return `curl -s ${quoted(url)} \\\n  -H 'Content-Type: application/json'${key} \\\n  -d ${quoted(JSON.stringify(request))}`;
}
