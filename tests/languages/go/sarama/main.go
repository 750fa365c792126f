// Sarama against a broker: topics, an idempotent producer with each compression, transactions, a group of two members.
// Prints what it saw as one line of JSON; the test that started it judges.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
)

const (
	topic      = "from-sarama"
	group      = "sarama-readers"
	partitions = 6
	lot        = 1000
)

type seen struct {
	Topics     []string       `json:"topics"`
	Written    int            `json:"written"`
	Values     map[string]int `json:"values"`
	Members    int            `json:"members"`
	Committed  int64          `json:"committed"`
	HighWaters int64          `json:"high_waters"`
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

func config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	return config
}

func produce(addresses []string) int {
	written := 0
	codecs := []sarama.CompressionCodec{
		sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD,
	}
	for _, codec := range codecs {
		settings := config()
		settings.Producer.Compression = codec
		producer, err := sarama.NewSyncProducer(addresses, settings)
		check(err)
		messages := make([]*sarama.ProducerMessage, lot)
		for i := range messages {
			messages[i] = &sarama.ProducerMessage{
				Topic: topic, Key: sarama.StringEncoder(fmt.Sprint(i)), Value: sarama.StringEncoder(codec.String()),
				Headers: []sarama.RecordHeader{{Key: []byte("n"), Value: []byte(fmt.Sprint(i))}},
			}
		}
		check(producer.SendMessages(messages))
		written += len(messages)
		check(producer.Close())
	}
	return written
}

func transact(addresses []string) {
	settings := config()
	settings.Producer.Transaction.ID = "sarama-writer"
	producer, err := sarama.NewSyncProducer(addresses, settings)
	check(err)
	for i := 0; i < 10; i++ {
		check(producer.BeginTxn())
		value := []string{"aborted", "committed"}[i%2]
		_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)})
		check(err)
		if i%2 == 0 {
			check(producer.AbortTxn())
		} else {
			check(producer.CommitTxn())
		}
	}
	check(producer.Close())
}

type reader struct {
	lock   *sync.Mutex
	values map[string]int
}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message := <-claim.Messages():
			if message == nil {
				return nil
			}
			r.lock.Lock()
			r.values[string(message.Value)]++
			r.lock.Unlock()
			session.MarkMessage(message, "")
		case <-session.Context().Done():
			return nil
		}
	}
}

// consume reads with two members until so many records were seen, and counts the members that the group has then.
func consume(addresses []string, admin sarama.ClusterAdmin, expected int) (map[string]int, int) {
	shared := reader{&sync.Mutex{}, map[string]int{}}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	var done sync.WaitGroup
	for i := 0; i < 2; i++ {
		settings := config()
		settings.Consumer.Offsets.Initial = sarama.OffsetOldest
		settings.Consumer.IsolationLevel = sarama.ReadCommitted
		member, err := sarama.NewConsumerGroup(addresses, group, settings)
		check(err)
		done.Add(1)
		go func() {
			defer done.Done()
			for ctx.Err() == nil {
				if err := member.Consume(ctx, []string{topic}, shared); err != nil && ctx.Err() == nil {
					log.Panic(err)
				}
			}
			check(member.Close())
		}()
	}
	members := 0
	for ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
		described, err := admin.DescribeConsumerGroups([]string{group})
		check(err)
		members = max(members, len(described[0].Members))
		shared.lock.Lock()
		total := 0
		for _, count := range shared.values {
			total += count
		}
		shared.lock.Unlock()
		if total >= expected && members == 2 {
			break
		}
	}
	cancel()
	done.Wait()
	return shared.values, members
}

func main() {
	addresses := strings.Split(os.Args[1], ",")
	admin, err := sarama.NewClusterAdmin(addresses, config())
	check(err)
	retention := "600000"
	check(admin.CreateTopic(topic, &sarama.TopicDetail{
		NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &retention},
	}, false))

	result := seen{}
	listed, err := admin.ListTopics()
	check(err)
	for name := range listed {
		result.Topics = append(result.Topics, name)
	}
	result.Written = produce(addresses)
	transact(addresses)
	result.Values, result.Members = consume(addresses, admin, result.Written+5)

	offsets, err := admin.ListConsumerGroupOffsets(group, nil)
	check(err)
	client, err := sarama.NewClient(addresses, config())
	check(err)
	for partition := int32(0); partition < partitions; partition++ {
		if block := offsets.GetBlock(topic, partition); block != nil {
			result.Committed += block.Offset
		}
		newest, err := client.GetOffset(topic, partition, sarama.OffsetNewest)
		check(err)
		result.HighWaters += newest
	}
	check(client.Close())
	check(admin.DeleteConsumerGroup(group))
	check(admin.DeleteTopic(topic))
	check(admin.Close())
	check(json.NewEncoder(os.Stdout).Encode(result))
}
