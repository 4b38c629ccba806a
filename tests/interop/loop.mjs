// One piece of work from the copy to the verified tree, with an official
// client, as a model does it.
// usage: loop.mjs KIND SBX PROJECT	prints TAP (KIND as of tour.mjs)
//
// PROJECT: a git work tree with sum.js, whose sum() is wrong, and its test.
import { connect } from './clients.mjs';

const [kind, sbx, project] = process.argv.slice(2);
let tests = 0;
const ok = (good, text, got) => {
  console.log(`${good ? '' : 'not '}ok ${++tests} - ${text}`);
  if (!good && got !== undefined)
    console.log('# ' + (JSON.stringify(got) ?? String(got)).slice(0, 1500));
};
const { client, transport, sc } = await connect(kind, sbx,
  ['mcp', '--private', '--copy-root', project]);
await client.listTools();	// so that results are held to their schemas

const made = await sc('sandbox_initialize', { name: 'loop', image: 'host' });
ok(made.status === 'ok', 'a sandbox', made);
const box = { container_id: made.container_id };
const copied = await sc('copy_project', { ...box, local_src_dir: '.' });
ok(copied.status === 'ok', 'the project is copied in', copied);

const listed = await sc('list_files', { ...box, path: '/workspace' });
ok(listed.files.includes('sum.js'), 'list_files', listed);
const found = await sc('search_in_container', { ...box, pattern: 'function sum' });
ok(found.matches?.[0]?.file.endsWith('sum.js') && found.matches[0].line === 2,
  'search_in_container', found);
const read = await sc('read_file_range', { ...box, file_path: 'sum.js' });
ok(read.content.includes('a - b') && read.total_lines === 5, 'read_file_range', read);

const path = { ...box, path: '/workspace' };
const red = await sc('verify_in_container', path);
ok(red.status === 'failed' && red.gate === false, 'the tests are red', red);
const failure = JSON.stringify(red);
ok(failure.includes('sum.test.js') && failure.includes('3 !== -1') ||
  failure.includes('-1 !== 3'), 'the failure says where and what', red);
const bad = await sc('edit_file', { ...box, file_name: 'sum.js',
  old_str: 'return a * b;', file_contents: 'return a + b;' });
ok(bad.status === 'error', 'an edit of what is not there changes nothing', bad);
const edited = await sc('edit_file', { ...box, file_name: 'sum.js',
  old_str: 'return a - b;', file_contents: 'return a + b;' });
ok(edited.status === 'ok' && edited.diff.includes('+  return a + b;'), 'edit_file', edited);
const green = await sc('verify_in_container', path);
ok(green.status === 'ok' && green.gate === false,
  'the tests are green, which opens no gate', green);

const kept = await sc('checkpoint', { ...box, message: 'sum adds' });
ok(kept.status === 'ok' && /^[0-9a-f]{7,}$/.test(kept.sha), 'checkpoint', kept);
const list = await sc('checkpoint_list', box);
ok(list.checkpoints.some((c) => c.message === 'sum adds'), 'checkpoint_list', list);
const diff = await sc('diff_in_container', { ...box, base: 'HEAD~1' });
ok(diff.files.length === 1 && diff.files[0].path === 'sum.js' &&
  diff.total_additions === 1 && diff.total_deletions === 1, 'diff_in_container', diff);

let fresh = await sc('verify_in_container', { ...box, fresh: true });
while (fresh.status === 'running')
  fresh = await sc('verify_in_container', { ...box, fresh: true, run_id: fresh.run_id });
ok(fresh.status === 'ok' && fresh.gate === true &&
  /^[0-9a-f]{40}$/.test(fresh.tree_id), 'a fresh verification passes', fresh);
const tree = await sc('sandbox_exec', { ...box, commands: ['git rev-parse HEAD^{tree}'] });
ok(tree.output.trim() === fresh.tree_id, "the tree is that of the checkpoint", tree);

const undone = await sc('undo_file_edit', { ...box, file_path: 'sum.js' });
ok(undone.status === 'ok', 'undo_file_edit', undone);
const back = await sc('checkpoint_restore', { ...box, sha: kept.sha });
ok(back.status === 'ok', 'checkpoint_restore', back);
const again = await sc('read_file_range', { ...box, file_path: 'sum.js' });
ok(again.content.includes('a + b'), 'the checkpoint is back', again);
await sc('sandbox_stop', { ...box, force: true });
await client.close();
await transport.close?.();
console.log(`1..${tests}`);
