'use strict';
// The official Node.js client against the built program.

const assert = require('node:assert');
const {after, afterEach, before, beforeEach, test} = require('node:test');
const {
  AckResponses,
  Encodings,
  PubSub,
  Schema,
  SchemaTypes,
  v1,
} = require('@google-cloud/pubsub');
const grpc = require('@grpc/grpc-js');
const {Server} = require('./program.js');

const NOT_FOUND = 5;
const ALREADY_EXISTS = 6;
const INVALID_ARGUMENT = 3;

// There is no cloud around us whose metadata could be asked.
process.env.METADATA_SERVER_DETECTION = 'none';

let server;
let pubsub;
let number = 0;

function connect() {
  process.env.PUBSUB_EMULATOR_HOST = server.address;
  return new PubSub({projectId: `node-${number}`});
}

/** The generated low-level client, on the same server. */
function lowLevel(kind) {
  return new kind({
    servicePath: '127.0.0.1',
    port: server.port,
    sslCreds: grpc.credentials.createInsecure(),
    projectId: pubsub.projectId,
  });
}

async function pair(options) {
  number += 1;
  const [topic] = await pubsub.createTopic(`topic-${number}`);
  const [subscription] = await topic.createSubscription(`subscription-${number}`, options);
  return {topic, subscription};
}

/** The next `count` messages of a subscription, each handed to `settle`. */
function receive(subscription, count, settle = message => message.ack()) {
  return new Promise((resolve, reject) => {
    const got = [];
    const onMessage = message => {
      got.push(message);
      settle(message, got);
      if (got.length === count) {
        subscription.removeListener('message', onMessage);
        subscription.removeListener('error', reject);
        resolve(got);
      }
    };
    subscription.on('error', reject);
    subscription.on('message', onMessage);
  });
}

const texts = messages => messages.map(message => message.data.toString()).sort();

before(async () => {
  server = await new Server().start();
});

after(async () => {
  await server.remove();
});

beforeEach(() => {
  number += 1;
  pubsub = connect();
});

afterEach(async () => {
  await pubsub.close();
});

test('topics and subscriptions are created, read, changed and deleted', async () => {
  const {topic, subscription} = await pair({ackDeadlineSeconds: 33, labels: {team: 'blue'}});
  const [metadata] = await subscription.getMetadata();
  assert.strictEqual(metadata.topic, topic.name);
  assert.strictEqual(metadata.ackDeadlineSeconds, 33);
  assert.deepStrictEqual(metadata.labels, {team: 'blue'});
  await topic.setMetadata({labels: {team: 'red'}});
  const [changed] = await topic.getMetadata();
  assert.deepStrictEqual(changed.labels, {team: 'red'});
  await subscription.setMetadata({ackDeadlineSeconds: 44});
  assert.strictEqual((await subscription.getMetadata())[0].ackDeadlineSeconds, 44);
  await topic.delete();
  assert.strictEqual((await subscription.getMetadata())[0].topic, '_deleted-topic_');
  assert.deepStrictEqual(await topic.exists(), [false]);
  await subscription.delete();
  assert.deepStrictEqual(await subscription.exists(), [false]);
});

test('lists are paged', async () => {
  const made = [];
  for (let n = 0; n < 7; n++) {
    const [topic] = await pubsub.createTopic(`paged-${n}`);
    await topic.createSubscription(`paged-${n}`);
    made.push(topic.name);
  }
  const [first, next] = await pubsub.getTopics({pageSize: 3, autoPaginate: false});
  assert.strictEqual(first.length, 3);
  const [second] = await pubsub.getTopics({...next, autoPaginate: false});
  assert.strictEqual(second.length, 3);
  const [all] = await pubsub.getTopics({pageSize: 3, autoPaginate: true});
  assert.deepStrictEqual(all.map(topic => topic.name).sort(), made.sort());
  const [subscriptions] = await pubsub.getSubscriptions({pageSize: 2, autoPaginate: true});
  assert.strictEqual(subscriptions.length, 7);
  const [ofTopic] = await pubsub.topic('paged-0').getSubscriptions();
  assert.strictEqual(ofTopic.length, 1);
});

test('messages arrive byte for byte', async () => {
  const {topic, subscription} = await pair();
  const data = Buffer.from(Array.from({length: 512}, (_, n) => n % 256));
  const id = await topic.publishMessage({data, attributes: {kind: 'binary'}, orderingKey: ''});
  const [message] = await receive(subscription, 1);
  assert.strictEqual(message.id, id);
  assert.ok(message.data.equals(data));
  assert.deepStrictEqual({...message.attributes}, {kind: 'binary'});
  assert.ok(Math.abs(message.publishTime.getTime() - Date.now()) < 60000);
  await subscription.close();
});

test('five hundred messages are each received once', async () => {
  const {topic, subscription} = await pair();
  const sent = Array.from({length: 500}, (_, n) => `message ${n}`);
  await Promise.all(sent.map(text => topic.publishMessage({data: Buffer.from(text)})));
  const got = await receive(subscription, 500);
  assert.deepStrictEqual(texts(got), sent.sort());
  await subscription.close();
});

test('a nacked message comes back', async () => {
  const {topic, subscription} = await pair();
  await topic.publishMessage({data: Buffer.from('again')});
  const got = await receive(subscription, 2, (message, all) =>
    all.length === 1 ? message.nack() : message.ack(),
  );
  assert.strictEqual(got[0].id, got[1].id);
  assert.notStrictEqual(got[0].ackId, got[1].ackId);
  await subscription.close();
});

test('flow control of the subscriber is honoured', async () => {
  const {topic, subscription} = await pair();
  for (let n = 0; n < 12; n++) await topic.publishMessage({data: Buffer.from(`${n}`)});
  subscription.setOptions({flowControl: {maxMessages: 3, allowExcessMessages: false}});
  let held = 0;
  let most = 0;
  const got = await receive(subscription, 12, message => {
    held += 1;
    most = Math.max(most, held);
    setImmediate(() => {
      held -= 1;
      message.ack();
    });
  });
  assert.strictEqual(new Set(got.map(message => message.id)).size, 12);
  assert.ok(most <= 3, `${most} held at once`);
  await subscription.close();
});

const AVRO = {type: 'record', name: 'Order', fields: [{name: 'n', type: 'long'}]};
const WIDER = {
  ...AVRO,
  fields: [...AVRO.fields, {name: 'note', type: ['null', 'string'], default: null}],
};

test('schemas are made, listed, revised, used and deleted', async () => {
  const schema = await pubsub.createSchema('order', SchemaTypes.Avro, JSON.stringify(AVRO));
  const listed = [];
  for await (const one of pubsub.listSchemas()) {
    listed.push(one.name.split('/').pop());
  }
  assert.deepStrictEqual(listed, ['order']);
  await pubsub.validateSchema({type: SchemaTypes.Avro, definition: JSON.stringify(WIDER)});
  await schema.validateMessage(Buffer.from('{"n": 1}'), Encodings.Json);
  await assert.rejects(schema.validateMessage(Buffer.from('{}'), Encodings.Json), {code: INVALID_ARGUMENT});

  const {name} = await schema.get();
  const low = lowLevel(v1.SchemaServiceClient);
  const [committed] = await low.commitSchema({
    name,
    schema: {name, type: SchemaTypes.Avro, definition: JSON.stringify(WIDER)},
  });
  const [topic] = await pubsub.createTopic({
    name: `held-${number}`,
    schemaSettings: {schema: name, encoding: Encodings.Json},
  });
  const [subscription] = await topic.createSubscription(`held-${number}`);
  const note = {string: 'quick'};
  await topic.publishMessage({data: Buffer.from(JSON.stringify({n: 1, note}))});
  await assert.rejects(topic.publishMessage({data: Buffer.from('no order')}), {
    code: INVALID_ARGUMENT,
  });
  const [message] = await receive(subscription, 1);
  const metadata = Schema.metadataFromMessage(message.attributes);
  assert.strictEqual(metadata.name, name);
  assert.strictEqual(metadata.revision, committed.revisionId);
  assert.strictEqual(metadata.encoding, Encodings.Json);
  await subscription.close();
  await low.close();
  await schema.delete();
});

test('messages of one key arrive in order', async () => {
  const {topic, subscription} = await pair({enableMessageOrdering: true});
  const ordered = pubsub.topic(topic.name, {messageOrdering: true});
  const keys = ['a', 'b', 'c'];
  const sent = [];
  for (let n = 0; n < 90; n++) {
    const data = Buffer.from(String(n));
    sent.push(ordered.publishMessage({data, orderingKey: keys[n % 3]}));
  }
  await Promise.all(sent);
  const got = await receive(subscription, 90);
  for (const [at, key] of keys.entries()) {
    const numbers = got.filter(one => one.orderingKey === key).map(one => Number(one.data));
    assert.deepStrictEqual(numbers, Array.from({length: 30}, (_, n) => 3 * n + at));
  }
  await subscription.close();
});

test('acks of an exactly-once subscription are confirmed', async () => {
  const {topic, subscription} = await pair({enableExactlyOnceDelivery: true});
  for (let n = 0; n < 20; n++) {
    await topic.publishMessage({data: Buffer.from(String(n))});
  }
  const confirmed = [];
  await receive(subscription, 20, message => confirmed.push(message.ackWithResponse()));
  const answers = await Promise.all(confirmed);
  assert.deepStrictEqual(new Set(answers), new Set([AckResponses.Success]));
  await subscription.close();
});

test('a retry policy spreads attempts, and a dead letter topic ends them', async () => {
  number += 1;
  const [letters] = await pubsub.createTopic(`letters-${number}`);
  const [bin] = await letters.createSubscription(`letters-${number}`);
  const {topic, subscription} = await pair({
    retryPolicy: {minimumBackoff: {seconds: 0}, maximumBackoff: {seconds: 1}},
    deadLetterPolicy: {deadLetterTopic: letters.name, maxDeliveryAttempts: 5},
  });
  await topic.publishMessage({data: Buffer.from('bad')});
  const attempts = await receive(subscription, 5, message => message.nack());
  assert.deepStrictEqual(attempts.map(one => one.deliveryAttempt), [1, 2, 3, 4, 5]);
  const [letter] = await receive(bin, 1);
  assert.strictEqual(letter.data.toString(), 'bad');
  await subscription.close();
  await bin.close();
});

test('the low-level client pulls, extends, nacks and acknowledges', async () => {
  const {topic, subscription} = await pair();
  await topic.publishMessage({data: Buffer.from('low')});
  const subscriber = lowLevel(v1.SubscriberClient);
  const name = subscription.name;
  const pull = async () => (await subscriber.pull({subscription: name, maxMessages: 10}))[0].receivedMessages;
  const [first] = await pull();
  await subscriber.modifyAckDeadline({subscription: name, ackIds: [first.ackId], ackDeadlineSeconds: 60});
  await subscriber.modifyAckDeadline({subscription: name, ackIds: [first.ackId], ackDeadlineSeconds: 0});
  const [second] = await pull();
  assert.strictEqual(second.message.messageId, first.message.messageId);
  await subscriber.acknowledge({subscription: name, ackIds: [second.ackId]});
  const [left] = await subscriber.pull({subscription: name, maxMessages: 10, returnImmediately: true});
  assert.deepStrictEqual(left.receivedMessages, []);
  await subscriber.close();
});

test('errors carry the status codes of Google', async () => {
  const {topic, subscription} = await pair();
  const code = want => error => error.code === want;
  await assert.rejects(pubsub.topic('nobody').get(), code(NOT_FOUND));
  await assert.rejects(pubsub.topic('nobody').publishMessage({data: Buffer.from('x')}), code(NOT_FOUND));
  await assert.rejects(pubsub.createTopic(topic.name), code(ALREADY_EXISTS));
  await assert.rejects(topic.createSubscription(subscription.name), code(ALREADY_EXISTS));
  await assert.rejects(pubsub.createTopic('goog-x'), code(INVALID_ARGUMENT));
  await assert.rejects(topic.createSubscription('short-deadline', {ackDeadlineSeconds: 5}), code(INVALID_ARGUMENT));
  await assert.rejects(topic.createSubscription('filtered', {filter: 'attributes a'}), code(INVALID_ARGUMENT));
  await assert.rejects(topic.createSubscription('pushed', {pushEndpoint: 'ftp://127.0.0.1'}), code(INVALID_ARGUMENT));
});

for (const signal of ['SIGTERM', 'SIGKILL']) {
  test(`everything is still there after ${signal}`, async () => {
    const {topic, subscription} = await pair({ackDeadlineSeconds: 33});
    const sent = Array.from({length: 20}, (_, n) => `message ${n}`);
    for (const text of sent) await topic.publishMessage({data: Buffer.from(text)});
    const subscriber = lowLevel(v1.SubscriberClient);
    const [{receivedMessages}] = await subscriber.pull({subscription: subscription.name, maxMessages: 5});
    await subscriber.acknowledge({
      subscription: subscription.name,
      ackIds: receivedMessages.map(received => received.ackId),
    });
    await topic.publishMessage({data: Buffer.from('last')});
    await subscriber.close();
    await pubsub.close();

    await server.restart(signal);
    pubsub = connect();
    const again = pubsub.subscription(subscription.name);
    assert.strictEqual((await again.getMetadata())[0].ackDeadlineSeconds, 33);
    const acked = new Set(receivedMessages.map(received => received.message.data.toString()));
    const wanted = [...sent.filter(text => !acked.has(text)), 'last'].sort();
    const got = await receive(again, wanted.length);
    assert.deepStrictEqual(texts(got), wanted);
    await again.close();
  });

  test(`a subscriber goes on after ${signal}`, async () => {
    const {topic, subscription} = await pair();
    await topic.publishMessage({data: Buffer.from('before')});
    const arrived = {};
    const arrival = text => new Promise(resolve => (arrived[text] = resolve));
    const first = arrival('before');
    const second = arrival('after');
    subscription.on('message', message => {
      message.ack();
      arrived[message.data.toString()]();
    });
    await first;
    await server.restart(signal);
    const publisher = connect();
    await publisher.topic(topic.name).publishMessage({data: Buffer.from('after')});
    await second;
    await publisher.close();
    await subscription.close();
  });
}
