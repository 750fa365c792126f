import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.*;
import org.apache.kafka.clients.consumer.internals.AbstractPartitionAssignor;
import org.apache.kafka.clients.producer.RoundRobinPartitioner;
import org.apache.kafka.clients.producer.internals.BuiltInPartitioner;
import org.apache.kafka.common.*;
import org.apache.kafka.common.utils.LogContext;

/** Answers questions with Kafka's own classes, one line for each line of standard input. */
public class ClientAnswers {
    public static void main(String[] arguments) throws ReflectiveOperationException {
        Scanner input = new Scanner(System.in);
        StringBuilder output = new StringBuilder();
        while (input.hasNextLine()) {
            String[] words = input.nextLine().split("\\|", -1);
            switch (words[0]) {
                case "key" -> output.append(BuiltInPartitioner.partitionForKey(bytes(words[1]), Integer.parseInt(words[2])));
                case "roundrobin" -> output.append(roundRobin(Integer.parseInt(words[1]), Integer.parseInt(words[2])));
                case "sticky" -> output.append(sticky(Integer.parseInt(words[1]), words[2]));
                case "assign" -> output.append(assign(words[1], words[2], Arrays.copyOfRange(words, 3, words.length)));
            }
            output.append('\n');
        }
        System.out.print(output);
    }

    static byte[] bytes(String hex) {
        return HexFormat.of().parseHex(hex);
    }

    static Cluster cluster(Map<String, Integer> topics) {
        Node node = new Node(1, "localhost", 9092);
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.forEach((topic, count) -> {
            for (int index = 0; index < count; index++)
                partitions.add(new PartitionInfo(topic, index, node, new Node[] {node}, new Node[] {node}));
        });
        return new Cluster("cluster", List.of(node), partitions, Set.of(), Set.of());
    }

    static String roundRobin(int partitions, int records) {
        RoundRobinPartitioner partitioner = new RoundRobinPartitioner();
        Cluster cluster = cluster(Map.of("t", partitions));
        return IntStream.range(0, records)
            .mapToObj(number -> "" + partitioner.partition("t", null, null, null, null, cluster))
            .collect(Collectors.joining(","));
    }

    /** The numbers of the records with which a new partition begins. */
    static String sticky(int stickyBytes, String sizes) throws ReflectiveOperationException {
        Class<?> info = BuiltInPartitioner.StickyPartitionInfo.class;
        Method peek = BuiltInPartitioner.class.getDeclaredMethod("peekCurrentPartitionInfo", Cluster.class);
        Method update = BuiltInPartitioner.class.getDeclaredMethod(
            "updatePartitionInfo", info, int.class, Cluster.class, boolean.class);
        peek.setAccessible(true);
        update.setAccessible(true);
        Cluster cluster = cluster(Map.of("t", 3));
        BuiltInPartitioner partitioner = new BuiltInPartitioner(new LogContext(), "t", stickyBytes);
        List<String> changes = new ArrayList<>();
        Object last = null;
        int number = 0;
        for (String size : sizes.split(",")) {
            Object current = peek.invoke(partitioner, cluster);
            if (current != last)
                changes.add("" + number);
            last = current;
            update.invoke(partitioner, current, Integer.parseInt(size), cluster, true);
            number++;
        }
        return String.join(",", changes);
    }

    static String assign(String name, String topics, String[] members) {
        Map<String, Integer> counts = new HashMap<>();
        for (String topic : topics.split(","))
            counts.put(topic.split(":")[0], Integer.parseInt(topic.split(":")[1]));
        Map<String, Subscription> subscriptions = new HashMap<>();
        for (String member : members) {
            String[] parts = member.split(";", -1);
            List<TopicPartition> owned = new ArrayList<>();
            for (String place : parts[3].isEmpty() ? new String[0] : parts[3].split(","))
                owned.add(new TopicPartition(place.split(":")[0], Integer.parseInt(place.split(":")[1])));
            ByteBuffer data = parts[5].isEmpty() ? null : ByteBuffer.wrap(bytes(parts[5]));
            Subscription subscription = new Subscription(
                List.of(parts[2].split(",")), data, owned, Integer.parseInt(parts[4]), Optional.empty());
            subscription.setGroupInstanceId(parts[1].isEmpty() ? Optional.empty() : Optional.of(parts[1]));
            subscriptions.put(parts[0], subscription);
        }
        AbstractPartitionAssignor assignor = switch (name) {
            case "range" -> new RangeAssignor();
            case "roundrobin" -> new RoundRobinAssignor();
            case "sticky" -> new StickyAssignor();
            default -> new CooperativeStickyAssignor();
        };
        GroupAssignment made = assignor.assign(cluster(counts), new GroupSubscription(subscriptions));
        return new TreeMap<>(made.groupAssignment()).entrySet().stream()
            .map(entry -> entry.getKey() + "=" + entry.getValue().partitions().stream()
                .map(place -> place.topic() + ":" + place.partition()).sorted().collect(Collectors.joining(",")))
            .collect(Collectors.joining(";"));
    }
}
