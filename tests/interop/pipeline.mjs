// From the clone of a private repository to a reviewed pull request, with an
// official client, as a model does it.
// usage: pipeline.mjs KIND SBX REPO ISSUE	prints TAP (KIND as of tour.mjs)
//
// REPO: has add.js, whose add() is wrong, and its test; ISSUE says so.
import { connect } from './clients.mjs';

const [kind, sbx, repo, issue] = process.argv.slice(2);
let tests = 0;
const ok = (good, text, got) => {
  console.log(`${good ? '' : 'not '}ok ${++tests} - ${text}`);
  if (!good && got !== undefined)
    console.log('# ' + (JSON.stringify(got) ?? String(got)).slice(0, 1500));
};
const { client, transport, sc } = await connect(kind, sbx, ['mcp', '--private']);
await client.listTools();	// so that results are held to their schemas

const made = await sc('sandbox_initialize', { allow_network: true });
const box = { container_id: made.container_id };
const cloned = await sc('clone_repo', { ...box, repo });
ok(cloned.status === 'ok', 'clone_repo', cloned);
const where = { ...box, working_dir: cloned.clone_path };
const told = await sc('issue_view', { ...box, repo, issue_number: Number(issue) });
ok(told.title === 'add subtracts', 'issue_view', told);

const edit = (old_str, file_contents) => sc('edit_file',
  { ...box, dest_dir: cloned.clone_path, file_name: 'add.js', old_str, file_contents });
const first = await edit('a - b', 'b - a');
ok(first.status === 'ok', 'an edit', first);
const red = await sc('verify_in_container', where);
ok(red.status === 'failed' && JSON.stringify(red).includes('add.test.js'), 'red', red);
const second = await edit('b - a', 'a + b');
ok(second.status === 'ok', 'another edit', second);
const green = await sc('verify_in_container', where);
ok(green.status === 'ok' && green.gate === false, 'green', green);
const kept = await sc('checkpoint', { ...where, message: 'add adds' });
ok(kept.status === 'ok', 'checkpoint', kept);

const what = { ...where, repo, branch: 'fix', message: 'Add.', files: ['add.js'],
  create_pr: true, pr_title: 'Add', pr_body: `Fixes #${issue}.` };
let out = await sc('publish', what);
while (out.status === 'running')
  out = await sc('publish', { ...what, run_id: out.run_id });
ok(out.status === 'ok' && out.outcome === 'pushed' && out.pr_created &&
  out.gate.status === 'passed', 'publish, verified by itself', out);

const pr = { repo, pr: out.pr_number };
const seen = await sc('pr_view', { ...box, ...pr });
ok(seen.head?.sha === out.commit && seen.changed_files === 1, 'pr_view', seen);
const review = await sc('sandbox_pr_review_write', { ...pr, event: 'COMMENT',
  body: 'It adds.', comments: [{ path: 'add.js', line: 1, body: 'a + b' }] });
ok(review.status === 'ok', 'sandbox_pr_review_write', review);
const after = await sc('pr_view', { ...box, ...pr });
const text = await sc('sandbox_exec', { ...box, commands: [`cat ${after.file}`] });
ok(after.reviews.length === 1 && text.output.includes('It adds.') &&
  text.output.includes('a + b'), 'pr_view has the review', [after, text]);
console.log(`# commit ${out.commit}`);
await sc('sandbox_stop', { ...box, force: true });
await client.close();
await transport.close?.();
console.log(`1..${tests}`);
