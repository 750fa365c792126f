// @platformatic/kafka against a broker: a topic, a producer, and a consumer of each group protocol.
// Prints what it saw as one line of JSON; the test that started it judges.
import { Admin, Consumer, Producer, stringDeserializers, stringSerializers } from '@platformatic/kafka'

const bootstrapBrokers = process.argv[2].split(',')
const topic = 'from-platformatic'
const lots = 50
const lot = 100

const admin = new Admin({ clientId: 'admin', bootstrapBrokers })
await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 })
const producer = new Producer({ clientId: 'producer', bootstrapBrokers, serializers: stringSerializers })
for (let i = 0; i < lots; i++) {
  const messages = Array.from({ length: lot }, (_, j) => ({ topic, key: `k${j}`, value: `v${i}`, headers: { n: `${i}` } }))
  await producer.send({ messages })
}
const read = {}
for (const groupProtocol of ['classic', 'consumer']) {
  const consumer = new Consumer({
    groupId: `platformatic-${groupProtocol}`, groupProtocol, clientId: 'consumer', bootstrapBrokers, deserializers: stringDeserializers
  })
  const stream = await consumer.consume({ autocommit: true, topics: [topic], mode: 'earliest' })
  const values = new Set()
  let count = 0
  for await (const message of stream) {
    values.add(`${message.key} ${message.value}`)
    if (++count === lots * lot) break
  }
  read[groupProtocol] = values.size
  await consumer.close(true)
}
await producer.close()
await admin.close()
console.log(JSON.stringify({ read }))
