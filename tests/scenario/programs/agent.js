// The same for node: agent.js CALLS, see agent.py.
'use strict';
const fs = require('fs');
const { execFileSync, spawn, spawnSync } = require('child_process');

const LINES = 1000;

const tools = {
  read(path) {
    const lines = fs.readFileSync(path, 'utf8').trimEnd().split('\n');
    const shown = lines.slice(0, LINES).map((line, n) => `${n + 1}\u2192${line}`);
    return shown.join('\n') + `\n\n... [${lines.length - LINES} lines truncated] ...`;
  },
  async readPromised(path) {
    const text = await fs.promises.readFile(path, 'utf8');
    return text.split('\n').slice(0, LINES).join('\n');
  },
  write(path, text) {
    fs.writeFileSync(path, text);
    return 'written';
  },
  async writePromised(path, text) {
    await fs.promises.writeFile(path, text);
    return 'written';
  },
  async writeCalledBack(path, text) {
    await new Promise((done, fail) =>
      fs.writeFile(path, text, (error) => (error ? fail(error) : done())));
    return 'written';
  },
  async writeStreamed(path, text) {
    await new Promise((done, fail) => {
      const stream = fs.createWriteStream(path);
      stream.on('error', fail).on('close', done);
      for (const line of text.split('\n')) stream.write(line + '\n');
      stream.end();
    });
    return 'written';
  },
  writeAtomically(path, text) {
    fs.writeFileSync(path + '.tmp', text);
    try {
      fs.renameSync(path + '.tmp', path);
    } finally {
      fs.rmSync(path + '.tmp', { force: true });
    }
    return 'written';
  },
  edit(path, old, text) {
    fs.writeFileSync(path, fs.readFileSync(path, 'utf8').replace(old, text));
    return 'edited';
  },
  bash(command) {
    return execFileSync('bash', ['-c', command], { encoding: 'utf8' });
  },
  bashSync(command) {
    return spawnSync('bash', ['-c', command], { encoding: 'utf8' }).stdout;
  },
  bashSpawned(command) {
    return new Promise((done) => {
      const child = spawn('bash', ['-c', command]);
      let text = '';
      child.stdout.on('data', (piece) => (text += piece));
      child.on('close', () => done(text));
    });
  },
};

async function main() {
  const results = [];
  for (const [tool, ...given] of JSON.parse(process.argv[2])) {
    const ready = given.map((word) => (word[0] === '$' ? results[word.slice(1)] : word));
    try {
      results.push(await tools[tool](...ready));
    } catch (error) {
      if (!error.code) throw error;
      results.push({ errno: -error.errno });
    }
  }
  console.log(JSON.stringify(results));
}

main();
