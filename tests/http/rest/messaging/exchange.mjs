// The exchange of IBM's documentation, by a JavaScript client: URL USER PASSWORD -> what came back, as JSON.
const [url, user, password] = process.argv.slice(2);
const credentials = { authorization: "Basic " + Buffer.from(`${user}:${password}`).toString("base64") };
const csrf = { ...credentials, "ibm-mq-rest-csrf-token": "blank" };

async function ask(method, query, headers, body) {
  const answer = await fetch(url + query, { method, headers, body });
  return { status: answer.status, headers: Object.fromEntries(answer.headers), text: await answer.text() };
}

const text = { ...csrf, "Content-Type": "text/plain;charset=utf-8", "ibm-mq-md-expiry": "120000" };
console.log(JSON.stringify([
  await ask("POST", "", text, "Hello"),
  await ask("GET", "", credentials),
  await ask("DELETE", "?wait=1000", csrf),
  await ask("DELETE", "", csrf),
  await ask("POST", "", credentials, "Hello"),
]));
