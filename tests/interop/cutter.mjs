// A relay before the daemon that cuts every connection when it is told to,
// and counts the streams that clients open by GET.
import net from 'node:net';

export async function cutter(where) {
  const real = new URL(where);
  const pairs = new Set();
  const state = { gets: 0, open: 0 };
  const server = net.createServer((a) => {
    const b = net.connect(Number(real.port), real.hostname);
    const pair = { a, b, get: false };
    pairs.add(pair);
    a.on('data', (d) => {
      if (d.toString('latin1').startsWith('GET ')) {
        state.gets++;
        state.open += !pair.get;
        pair.get = true;
      }
      b.write(d);
    });
    b.on('data', (d) => a.write(d));
    const end = () => {
      if (!pairs.delete(pair)) return;
      state.open -= pair.get;
      a.destroy();
      b.destroy();
    };
    for (const s of [a, b]) s.on('close', end).on('error', end);
  });
  await new Promise((r) => server.listen(0, '127.0.0.1', r));
  state.url = `http://127.0.0.1:${server.address().port}${real.pathname}`;
  state.now = () => { for (const p of [...pairs]) { p.a.destroy(); p.b.destroy(); } };
  state.close = () => { state.now(); server.close(); };
  return state;
}
