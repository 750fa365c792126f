// segmentio/kafka-go against a broker: a topic, a writer with each compression, readers by partition and in a group.
// Prints what it saw as one line of JSON; the test that started it judges.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	topic      = "from-kafka-go"
	group      = "kafka-go-readers"
	partitions = 3
	lot        = 1000
)

type seen struct {
	Written     int            `json:"written"`
	InGroup     map[string]int `json:"in_group"`
	InPartition int            `json:"in_partition"`
	LastOffset  int64          `json:"last_offset"`
	Committed   int64          `json:"committed"`
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := os.Args[1]
	result := seen{InGroup: map[string]int{}}

	client := &kafka.Client{Addr: kafka.TCP(address)}
	created, err := client.CreateTopics(ctx, &kafka.CreateTopicsRequest{
		Topics: []kafka.TopicConfig{{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}},
	})
	check(err)
	check(created.Errors[topic])

	codecs := map[string]kafka.Compression{"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}
	for name, codec := range codecs {
		writer := &kafka.Writer{
			Addr: kafka.TCP(address), Topic: topic, Balancer: &kafka.Murmur2Balancer{}, RequiredAcks: kafka.RequireAll,
			Compression: codec, BatchTimeout: 10 * time.Millisecond,
		}
		messages := make([]kafka.Message, lot)
		for i := range messages {
			messages[i] = kafka.Message{
				Key: []byte(fmt.Sprint(i)), Value: []byte(name), Headers: []kafka.Header{{Key: "n", Value: []byte(fmt.Sprint(i))}},
			}
		}
		check(writer.WriteMessages(ctx, messages...))
		check(writer.Close())
		result.Written += len(messages)
	}

	member := kafka.NewReader(kafka.ReaderConfig{
		Brokers: []string{address}, GroupID: group, Topic: topic, StartOffset: kafka.FirstOffset, MaxWait: 500 * time.Millisecond,
	})
	for i := range result.Written {
		message, err := member.FetchMessage(ctx)
		check(err)
		result.InGroup[string(message.Value)]++
		if i%100 == 99 {
			check(member.CommitMessages(ctx, message))
		}
	}
	check(member.Close())

	alone := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{address}, Topic: topic, Partition: 0, MaxWait: 500 * time.Millisecond})
	check(alone.SetOffset(kafka.FirstOffset))
	leader, err := kafka.DialLeader(ctx, "tcp", address, topic, 0)
	check(err)
	result.LastOffset, err = leader.ReadLastOffset()
	check(err)
	check(leader.Close())
	for int64(result.InPartition) < result.LastOffset {
		_, err := alone.ReadMessage(ctx)
		check(err)
		result.InPartition++
	}
	check(alone.Close())

	offsets, err := client.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {0, 1, 2}}})
	check(err)
	for _, partition := range offsets.Topics[topic] {
		result.Committed += partition.CommittedOffset
	}
	check(json.NewEncoder(os.Stdout).Encode(result))
}
