// Official clients of all kinds, under one face; see tour.mjs for the kinds.
const modules = `${process.env.SBX_INTEROP}/node_modules/@modelcontextprotocol`;

export const sleep = (ms) => new Promise((r) => setTimeout(r, ms));

// Until f() is true, at most 10 s.
export async function until(f) {
  for (const end = Date.now() + 10000; Date.now() < end; await sleep(100))
    if (await f()) return true;
  return false;
}

const load = {
  async sdk() {
    const sdk = `${modules}/sdk/dist/esm/client`;
    return {
      ...await import(`${sdk}/index.js`), ...await import(`${sdk}/stdio.js`),
      ...await import(`${sdk}/streamableHttp.js`), ...await import(`${sdk}/sse.js`),
      invoke: (c, params, options) => c.callTool(params, undefined, options),
    };
  },
  async client() {
    return {
      ...await import(`${modules}/client/dist/index.mjs`),
      ...await import(`${modules}/client/dist/stdio.mjs`),
      invoke: (c, params, options) => c.callTool(params, options),
    };
  },
};
const modes = { modern: { pin: '2026-07-28' }, legacy: 'legacy', auto: 'auto' };

function open(m, over, target, args) {
  // what the server says is recorded on its way, for check_messages.py
  const [command, ...rest] = [...(process.env.SBX_MCP_RECORD ?
    ['python3', `${process.env.SBX_SRC}/tests/lib/mcprelay.py`] : []),
  target, ...(args ?? [])];
  if (over === 'stdio')
    return new m.StdioClientTransport({ command, args: rest,
      env: process.env, stderr: 'inherit' });
  const requestInit = { headers: { Authorization: `Bearer ${process.env.SBX_TOKEN}` } };
  return over === 'sse' ?
    new m.SSEClientTransport(new URL(target.replace(/\/mcp$/, '/sse')), { requestInit }) :
    new m.StreamableHTTPClientTransport(new URL(target), { requestInit });
}

export async function connect(kind, target, args) {
  const [name, over, era] = kind.split('-');
  const m = await load[name]();
  const transport = open(m, over, target, args);
  const client = new m.Client({ name: kind, version: '1' },
    era ? { versionNegotiation: { mode: modes[era] } } : {});
  await client.connect(transport);
  const call = (tool, a, options) => m.invoke(client, { name: tool, arguments: a }, options);
  const sc = async (...a) => (await call(...a)).structuredContent;
  return { client, transport, call, sc };
}
