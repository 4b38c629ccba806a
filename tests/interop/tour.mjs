// The whole tour with the official client.  usage: tour.mjs SBX PROJECT
// Prints TAP.  Every tool result is validated by the SDK against the tool's
// outputSchema (it refuses a mismatch), after tools/list made it known.
import { readdirSync } from 'node:fs';
const sdk = `${process.env.SBX_INTEROP}/node_modules/@modelcontextprotocol/sdk/dist/esm`;
const { Client } = await import(`${sdk}/client/index.js`);
const { StdioClientTransport } = await import(`${sdk}/client/stdio.js`);

const [sbx, project] = process.argv.slice(2);
let tests = 0;
const ok = (good, text, got) => {
  console.log(`${good ? '' : 'not '}ok ${++tests} - ${text}`);
  if (!good && got !== undefined)
    console.log('# ' + JSON.stringify(got).slice(0, 1500));
};

const transport = new StdioClientTransport({
  command: sbx, args: ['mcp', '--private', '--copy-root', project],
  env: process.env, stderr: 'inherit',
});
const client = new Client({ name: 'tour', version: '1' });
await client.connect(transport);
ok(client.getServerVersion().name === 'sbx', 'initialize');
ok(Buffer.byteLength(client.getInstructions()) <= 2048, 'instructions fit');

const call = async (name, args, options) =>
  (await client.callTool({ name, arguments: args }, undefined, options));
const sc = async (name, args, options) =>
  (await call(name, args, options)).structuredContent;

const { tools } = await client.listTools();
const names = tools.map((t) => t.name);
ok(['sandbox_initialize', 'sandbox_stop', 'sandbox_list_containers',
  'sandbox_attach', 'run_container_and_exec', 'sandbox_exec',
  'sandbox_exec_background', 'sandbox_exec_check', 'sandbox_exec_kill',
  'read_output', 'copy_project', 'copy_file'].every((n) => names.includes(n)),
'all tools are listed', names);
ok(tools.every((t) => t.outputSchema && t.annotations), 'schemas and annotations');

const made = await sc('sandbox_initialize', { name: 'sdk' });
ok(made.status === 'ok' && /^[0-9a-f]{12}$/.test(made.container_id),
  'sandbox_initialize', made);
const box = made.container_id;

const copied = await sc('copy_project', { container_id: box, local_src_dir: '.' });
ok(copied.status === 'ok', 'copy_project', copied);
const listing = await sc('sandbox_exec', { container_id: box,
  commands: ['git status --short', 'ls'] });
ok(listing.output.includes('main.c') && !listing.output.includes('junk.o') &&
  !listing.output.includes('untracked.c'), 'tracked files only', listing);

const both = await call('sandbox_exec', { container_id: box, argv: ['echo', 'hi'] });
ok(JSON.stringify(JSON.parse(both.content[0].text)) ===
  JSON.stringify(both.structuredContent), 'text is the same JSON', both);

const failed = await sc('sandbox_exec', { container_id: box,
  commands: ['seq 1 5000', 'echo the reason >&2', 'false', 'echo never'] });
ok(failed.status === 'failed' && failed.exit_code === 1 &&
  JSON.stringify(failed).includes('the reason') &&
  failed.output.includes('5000') && !JSON.stringify(failed).includes('never'),
'a failing command shows its end', failed);
const page = await sc('read_output', { run_id: failed.run_id,
  stream: 'stdout', offset: 0, limit: 100 });
ok(page.output.startsWith('1\n2\n') && page.next_offset === 100,
  'read_output pages the stored output', page);
const res = await client.readResource({ uri: `sbx://run/${failed.run_id}/stderr` });
ok(res.contents[0].text.includes('the reason'), 'the same as a resource', res);
const { resources } = await client.listResources();
ok(resources.some((r) => r.uri.includes(failed.run_id)), 'resources are listed');

const job = await sc('sandbox_exec_background', { container_id: box,
  commands: ['echo begun', 'sleep 60'] });
ok(job.status === 'running' && job.job_id, 'background job', job);
await new Promise((r) => setTimeout(r, 300));
const check = await sc('sandbox_exec_check', { container_id: box, job_id: job.job_id });
ok(check.status === 'running' && JSON.stringify(check).includes('begun'),
  'partial output while running', check);
const killed = await sc('sandbox_exec_kill', { container_id: box, job_id: job.job_id });
ok(killed.status !== 'error', 'sandbox_exec_kill', killed);

const seen = [];
await call('sandbox_exec', { container_id: box, commands: ['sleep 5'] },
  { onprogress: (p) => seen.push(p.progress) });
ok(seen.length >= 1 && seen.every((v, i) => i === 0 || v > seen[i - 1]),
  'progress rises', seen);

const abort = new AbortController();
const began = Date.now();
const pending = call('sandbox_exec', { container_id: box,
  commands: ["trap '' TERM; sleep 300 & wait"] }, { signal: abort.signal });
setTimeout(() => abort.abort(), 300);
const cancelled = await pending.then(() => false, () => true);
ok(cancelled && Date.now() - began < 5000, 'cancel ends the call');
await new Promise((r) => setTimeout(r, 1200));
const ps = await sc('sandbox_exec', { container_id: box,
  commands: ['ls -d /proc/[0-9]* | while read p; do tr "\\0" " " <$p/cmdline 2>/dev/null; echo; done'] });
ok(!ps.output.includes('sleep 300'), 'and kills its tree', ps);

const wrong = await call('sandbox_exec', { container_id: box, comands: ['true'] });
ok(wrong.isError && wrong.content[0].text.includes('comands') &&
  wrong.content[0].text.includes('commands'), 'an unknown argument names the mend', wrong);
const nowhere = await call('sandbox_exec', { container_id: '0123456789ab', commands: ['true'] });
ok(nowhere.isError, 'an unknown sandbox is a tool error', nowhere);

const once = await sc('run_container_and_exec', { commands: ['echo once'] });
ok(once.status === 'ok' && once.output.includes('once'), 'run_container_and_exec', once);
const attached = await sc('sandbox_attach', { name_or_id: 'sdk' });
ok(attached.container_id === box, 'sandbox_attach by name', attached);
const list = await sc('sandbox_list_containers', {});
ok(list.containers.length === 1 && list.containers[0].container_id === box,
  'the list has this one only', list);

await sc('sandbox_exec', { container_id: box, commands: ['echo "// mine" >> main.c'] });
const guarded = await call('sandbox_stop', { container_id: box });
ok(guarded.isError && guarded.content[0].text.includes('main.c'),
  'stop names the work at risk', guarded);
const stopped = await sc('sandbox_stop', { container_id: box, force: true });
ok(stopped.status === 'ok', 'stop with force', stopped);

const pid = transport.pid;
const end = Date.now();
await client.close();
while (Date.now() - end < 3000 && readdirSync('/proc').includes(String(pid)))
  await new Promise((r) => setTimeout(r, 20));
ok(Date.now() - end < 2000, 'the suite ends with its client', Date.now() - end);
console.log(`1..${tests}`);
