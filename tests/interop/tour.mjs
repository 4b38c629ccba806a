// The whole tour with an official client.
// usage: tour.mjs KIND SBX|URL [PROJECT]	prints TAP
//
// KIND is PACKAGE-TRANSPORT[-ERA]: sdk-stdio sdk-http sdk-sse (packages 1.x),
// client-{stdio,http}-{modern,legacy,auto} (2.x).  SBX: the program, for
// stdio; URL: that of the daemon, whose token is in SBX_TOKEN.  PROJECT: a
// git work tree to copy in, for stdio.  With SBX_LONG=1 a call that takes
// longer than a client waits is among them.
//
// Every tool result is validated by the client against the tool's outputSchema
// (it refuses a mismatch), after tools/list made it known.
import { readdirSync } from 'node:fs';
import { connect, sleep, until } from './clients.mjs';
import { cutter } from './cutter.mjs';

const [kind, where, project] = process.argv.slice(2);
const [, over, era] = kind.split('-');
const session = over === 'http' && (era ?? 'legacy') === 'legacy';
let tests = 0;
const ok = (good, text, got) => {
  console.log(`${good ? '' : 'not '}ok ${++tests} - ${text}`);
  if (!good && got !== undefined)
    console.log('# ' + (JSON.stringify(got) ?? String(got)).slice(0, 1500));
};

const cut = session ? await cutter(where) : null;
const target = cut?.url ?? where;
const args = ['mcp', '--private', ...(project ? ['--copy-root', project] : [])];
const { client, transport, call, sc } = await connect(kind, target, args);
const errors = [];
client.onerror = (e) => errors.push(String(e));

ok(client.getServerVersion().name === 'sbx', 'the handshake');
ok(Buffer.byteLength(client.getInstructions()) <= 2048, 'instructions fit');
if (era)
  ok((client.getNegotiatedProtocolVersion() === '2026-07-28') === (era !== 'legacy'),
    'the revision is of the era that was asked for',
    client.getNegotiatedProtocolVersion());

const { tools } = await client.listTools();
const names = tools.map((t) => t.name);
ok(['sandbox_initialize', 'sandbox_stop', 'sandbox_list_containers',
  'sandbox_attach', 'run_container_and_exec', 'sandbox_exec',
  'sandbox_exec_background', 'sandbox_exec_check', 'sandbox_exec_kill',
  'read_output', 'copy_project', 'copy_file'].every((n) => names.includes(n)),
'all tools are listed', names);
ok(tools.every((t) => t.inputSchema.type === 'object' &&
  (over === 'sse' || (t.outputSchema && t.annotations))), 'schemas and annotations');
const { resourceTemplates } = await client.listResourceTemplates();
ok(resourceTemplates.some((t) => t.uriTemplate.startsWith('sbx://run/')),
  'resource templates', resourceTemplates);

const made = await sc('sandbox_initialize', { name: kind, image: 'host' });
ok(made.status === 'ok' && /^[0-9a-f]{12}$/.test(made.container_id),
  'sandbox_initialize', made);
const box = made.container_id;

let long;
if (process.env.SBX_LONG) {
  const began = Date.now();
  long = call('sandbox_exec', { container_id: box, commands: ['echo begun; sleep 90'] })
    .then((r) => [r, Date.now() - began], (e) => [e, Date.now() - began]);
}

if (project) {
  const copied = await sc('copy_project', { container_id: box, local_src_dir: '.' });
  ok(copied.status === 'ok', 'copy_project', copied);
  const listing = await sc('sandbox_exec', { container_id: box,
    commands: ['git status --short', 'ls'] });
  ok(listing.output.includes('main.c') && !listing.output.includes('junk.o') &&
    !listing.output.includes('untracked.c'), 'tracked files only', listing);
}

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
await sleep(300);
const check = await sc('sandbox_exec_check', { container_id: box, job_id: job.job_id });
ok(check.status === 'running' && JSON.stringify(check).includes('begun'),
  'partial output while running', check);
const killed = await sc('sandbox_exec_kill', { container_id: box, job_id: job.job_id });
ok(killed.status !== 'error', 'sandbox_exec_kill', killed);

const seen = [];
await call('sandbox_exec', { container_id: box, commands: ['sleep 4'] },
  { onprogress: (p) => seen.push(p.progress) });
ok(seen.length >= 1 && seen.every((v, i) => i === 0 || v > seen[i - 1]),
  'progress rises', seen);

// at any moment: at once, and when events have begun
for (const ms of [300, 2600]) {
  const abort = new AbortController();
  const began = Date.now();
  const pending = call('sandbox_exec', { container_id: box,
    commands: ["trap '' TERM; sleep 300 & wait"] }, { signal: abort.signal });
  setTimeout(() => abort.abort(), ms);
  const cancelled = await pending.then(() => false, () => true);
  ok(cancelled && Date.now() - began < ms + 2000, `cancel after ${ms} ms ends the call`);
  const gone = await until(async () => !(await sc('sandbox_exec', { container_id: box,
    commands: ['cat /proc/[0-9]*/cmdline | tr "\\0" " "'] })).output.includes('sleep 300'));
  ok(gone, 'and kills its tree');
}

const wrong = await call('sandbox_exec', { container_id: box, comands: ['true'] });
ok(wrong.isError && wrong.content[0].text.includes('comands') &&
  wrong.content[0].text.includes('commands'), 'an unknown argument names the mend', wrong);
const nowhere = await call('sandbox_exec', { container_id: '0123456789ab', commands: ['true'] });
ok(nowhere.isError, 'an unknown sandbox is a tool error', nowhere);
ok(await call('no_such_tool', {}).then((r) => r.isError, () => true),
  'an unknown tool is an error');
ok(await client.readResource({ uri: 'sbx://run/0000000000000000/stdout' })
  .then(() => false, () => true), 'an unknown resource is an error');

const once = await sc('run_container_and_exec', { commands: ['echo once'], image: 'host' });
ok(once.status === 'ok' && once.output.includes('once'), 'run_container_and_exec', once);
const attached = await sc('sandbox_attach', { name_or_id: kind });
ok(attached.container_id === box, 'sandbox_attach by name', attached);
const list = await sc('sandbox_list_containers', {});
ok(list.containers.filter((c) => c.container_id === box).length === 1,
  'the sandbox is listed', list);

if (cut) {
  // every connection is cut while a call is under way and a stream is open
  const pending = sc('sandbox_exec', { container_id: box, commands: ['sleep 4', 'echo over'] });
  await sleep(2800);
  const before = cut.gets;
  cut.now();
  const got = await pending.catch(String);
  ok(got.output === 'over\n', 'a call whose connection was cut has its answer', got);
  ok((await sc('sandbox_list_containers', {})).containers.length > 0, 'calls go on');
  ok(await until(() => cut.open > 0 && cut.gets > before), 'the client listens again',
    [cut.gets, before, errors]);
  ok(!errors.some((e) => /Maximum|409|404/.test(e)), 'and never gave up', errors);
}

if (project) {
  await sc('sandbox_exec', { container_id: box, commands: ['echo "// mine" >> main.c'] });
  const guarded = await call('sandbox_stop', { container_id: box });
  ok(guarded.isError && guarded.content[0].text.includes('main.c'),
    'stop names the work at risk', guarded);
}
if (long) {
  const [r, ms] = await long;
  const s = r.structuredContent;
  ok(ms < 55000 && s?.status === 'running' && s.job_id && s.output.includes('begun'),
    'a call that takes longer than a client waits is a job by then', [ms, String(r), s]);
  const then = await sc('sandbox_exec_check', { container_id: box, job_id: s?.job_id });
  ok(then.status === 'running', 'which can be looked at', then);
}
const stopped = await sc('sandbox_stop', { container_id: box, force: true });
ok(stopped.status === 'ok', 'stop with force', stopped);

if (over === 'stdio') {
  const end = Date.now();
  const pid = transport.pid;
  await client.close();
  await until(() => !readdirSync('/proc').includes(String(pid)));
  ok(Date.now() - end < 2000, 'the suite ends with its client', Date.now() - end);
} else {
  if (session) {
    await transport.terminateSession();
    ok(await call('sandbox_list_containers', {}).then(() => false, () => true) ||
      transport.sessionId === undefined, 'the session has ended');
  }
  await client.close();
  ok(true, 'the client has ended');
}
cut?.close();
console.log(`1..${tests}`);
