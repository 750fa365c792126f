// KafkaJS against a broker: topics, an idempotent producer, transactions, a group of three members, admin.
// Prints what it saw as one line of JSON; the test that started it judges.
import kafkajs from 'kafkajs'

const { Kafka, CompressionTypes, logLevel } = kafkajs
const topic = 'from-kafkajs'
const groupId = 'kafkajs-readers'
const lots = 50
const lot = 100

const kafka = new Kafka({ clientId: 'kafkajs', brokers: process.argv[2].split(','), logLevel: logLevel.NOTHING })
const admin = kafka.admin()
await admin.connect()
await admin.createTopics({ topics: [{ topic, numPartitions: 6, configEntries: [{ name: 'retention.ms', value: '600000' }] }] })

const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 })
await producer.connect()
for (let i = 0; i < lots; i++) {
  const compression = i % 2 ? CompressionTypes.GZIP : CompressionTypes.None
  const messages = Array.from({ length: lot }, (_, j) => ({ key: `k${j}`, value: 'plain', headers: { n: `${i}` } }))
  await producer.send({ topic, compression, messages })
}

const writer = kafka.producer({ transactionalId: 'kafkajs-writer', idempotent: true, maxInFlightRequests: 1 })
await writer.connect()
for (let i = 0; i < 10; i++) {
  const transaction = await writer.transaction()
  await transaction.send({ topic, messages: [{ value: i % 2 ? 'committed' : 'aborted' }] })
  await (i % 2 ? transaction.commit() : transaction.abort())
}

const values = {}
let total = 0
let members = 0
const consumers = []
for (let i = 0; i < 3; i++) {
  const consumer = kafka.consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    eachMessage: async ({ message }) => {
      const value = message.value.toString()
      values[value] = (values[value] ?? 0) + 1
      total++
    }
  })
  consumers.push(consumer)
}
for (let i = 0; i < 600 && (total < lots * lot + 5 || members < 3); i++) {
  await new Promise(resolve => setTimeout(resolve, 100))
  const { groups } = await admin.describeGroups([groupId])
  members = Math.max(members, groups[0].members.length)
}
for (const consumer of consumers) await consumer.disconnect()

const committed = await admin.fetchOffsets({ groupId, topics: [topic] })
const ends = await admin.fetchTopicOffsets(topic)
const { resources } = await admin.describeConfigs({ resources: [{ type: 2, name: topic, configNames: ['retention.ms'] }] })
await admin.createPartitions({ topicPartitions: [{ topic, count: 8 }] })
const partitions = (await admin.fetchTopicMetadata({ topics: [topic] })).topics[0].partitions.length
await admin.deleteGroups([groupId])
await admin.deleteTopics({ topics: [topic] })
const sum = offsets => offsets.reduce((all, { offset }) => all + Math.max(0, Number(offset)), 0)
console.log(JSON.stringify({
  values, members, partitions, committed: sum(committed[0].partitions), ends: sum(ends),
  retention: resources[0].configEntries[0].configValue
}))
for (const each of [producer, writer, admin]) await each.disconnect()
