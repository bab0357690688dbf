'use strict';
// Starts, stops and kills the built program for the tests of the official Node.js client.

const {spawn} = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const readline = require('node:readline');

const PROGRAM =
  process.env.E2E_PROGRAM || path.join(__dirname, '../../../target/debug/postrider');

class Server {
  constructor() {
    const parent = process.env.E2E_FOLDER || os.tmpdir();
    fs.mkdirSync(parent, {recursive: true});
    this.folder = fs.mkdtempSync(path.join(parent, 'node-'));
    this.port = 0;
    this.child = null;
  }

  get address() {
    return `127.0.0.1:${this.port}`;
  }

  /** Resolves when the program says where it listens. */
  async start() {
    const log = fs.openSync(path.join(this.folder, 'server.log'), 'a');
    this.child = spawn(
      PROGRAM,
      ['serve', '--listen', this.address, '--data-dir', path.join(this.folder, 'data')],
      {stdio: ['ignore', 'pipe', log], cwd: this.folder},
    );
    fs.closeSync(log);
    this.ended = new Promise(resolve => this.child.once('exit', code => resolve(code)));
    const lines = readline.createInterface({input: this.child.stdout});
    for await (const line of lines) {
      const found = /^Listening\s+\S+:(\d+)/.exec(line);
      if (found) {
        this.port = Number(found[1]);
        this.child.stdout.resume();
        return this;
      }
    }
    throw new Error(`the server did not start: ${this.log()}`);
  }

  async end(signal) {
    this.child.kill(signal);
    return this.ended;
  }

  async restart(signal) {
    await this.end(signal);
    await this.start();
  }

  async remove() {
    await this.end('SIGKILL');
    fs.rmSync(this.folder, {recursive: true, force: true});
  }

  log() {
    return fs.readFileSync(path.join(this.folder, 'server.log'), 'utf8').slice(-4000);
  }
}

module.exports = {Server};
