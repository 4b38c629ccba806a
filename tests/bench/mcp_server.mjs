// A minimal server of the official SDK, for bench_mcp.py to compare with.
// usage: mcp_server.mjs TOOLS.json RESULT.json [PORT]
// It lists what TOOLS.json lists and answers every call with RESULT.json;
// over stdio, or over Streamable HTTP with a session a client, JSON answers.
import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
const sdk = `${process.env.SBX_INTEROP}/node_modules/@modelcontextprotocol/sdk/dist/esm`;
const { Server } = await import(`${sdk}/server/index.js`);
const { StdioServerTransport } = await import(`${sdk}/server/stdio.js`);
const { StreamableHTTPServerTransport } = await import(`${sdk}/server/streamableHttp.js`);
const { CallToolRequestSchema, ListToolsRequestSchema } = await import(`${sdk}/types.js`);

const [tools, result, port] = process.argv.slice(2);
const list = JSON.parse(readFileSync(tools));
const answer = JSON.parse(readFileSync(result));
const make = () => {
  const server = new Server({ name: 'rival', version: '1' },
    { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: list }));
  server.setRequestHandler(CallToolRequestSchema, async () => ({
    content: [{ type: 'text', text: JSON.stringify(answer) }],
    structuredContent: answer, isError: false,
  }));
  return server;
};

const sessions = new Map();
const serve = async (req, res) => {
  let transport = sessions.get(req.headers['mcp-session-id']);
  if (!transport) {
    transport = new StreamableHTTPServerTransport({
      sessionIdGenerator: () => randomUUID(), enableJsonResponse: true,
      onsessioninitialized: (id) => sessions.set(id, transport),
      onsessionclosed: (id) => sessions.delete(id),
    });
    await make().connect(transport);
  }
  await transport.handleRequest(req, res);
};
if (port === undefined)
  await make().connect(new StdioServerTransport());
else
  createServer({ keepAliveTimeout: 600000 }, serve).listen(Number(port), '127.0.0.1', () => console.log('up'));
