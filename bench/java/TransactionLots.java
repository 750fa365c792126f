import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers as applications have them, with the client's defaults (acks=all), that write lots of records: plainly or
 * idempotently, each lot flushed before the next begins, or each lot as a transaction. The kinds take turns in one
 * process, in changing order and for a short while each, so that the compiler, the collector and the machine are the
 * same for all: what changes within seconds is larger than what is compared. Prints a line for each kind and pass: its
 * name, how many lots were written, the median time of one in nanoseconds, and the CPU ticks that the broker spent.
 */
public class TransactionLots {
    record Load(String servers, String brokerPid, String topic, int partitions, int producers, int records, int bytes,
                double warmUpSeconds, double passSeconds, int passes) {}

    public static void main(String[] arguments) throws Exception {
        Iterator<String> given = List.of(arguments).iterator();
        Load load = new Load(given.next(), given.next(), given.next(), Integer.parseInt(given.next()),
            Integer.parseInt(given.next()), Integer.parseInt(given.next()), Integer.parseInt(given.next()),
            Double.parseDouble(given.next()), Double.parseDouble(given.next()), Integer.parseInt(given.next()));
        List<Kind> kinds = new ArrayList<>();
        while (given.hasNext()) kinds.add(new Kind(load, given.next()));
        for (Kind kind : kinds) kind.write(load.warmUpSeconds);
        for (int pass = 0; pass < load.passes; pass++) {
            // Each kind comes as often behind each of the others: what one leaves to be done, pages to be written to
            // the disk, is paid by the next.
            List<Kind> order = new ArrayList<>(kinds);
            if (pass % 2 == 1) Collections.swap(order, 0, 1);
            for (Kind kind : order) System.out.println(kind.write(load.passSeconds));
        }
        kinds.forEach(Kind::close);
    }

    /** Some producers of one kind, each with a thread. */
    static class Kind {
        final Load load;
        final String name;
        final List<KafkaProducer<byte[], byte[]>> producers = new ArrayList<>();
        final ExecutorService threads;
        volatile Exception failure;

        Kind(Load load, String name) {
            this.load = load;
            this.name = name;
            this.threads = Executors.newFixedThreadPool(load.producers);
            for (int number = 0; number < load.producers; number++) {
                Properties settings = new Properties();
                settings.put(ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, load.servers);
                settings.put(ProducerConfig.ENABLE_IDEMPOTENCE_CONFIG, !name.equals("plain"));
                if (isTransactional())
                    settings.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, load.topic + "-" + number);
                var serializer = new ByteArraySerializer();
                var producer = new KafkaProducer<byte[], byte[]>(settings, serializer, serializer);
                producers.add(producer);
                if (isTransactional()) producer.initTransactions();
            }
        }

        boolean isTransactional() {
            return name.equals("transactions");
        }

        String write(double seconds) throws Exception {
            long ticks = brokerTicks();
            long until = System.nanoTime() + (long) (seconds * 1e9);
            List<Future<List<Long>>> running = new ArrayList<>();
            for (int number = 0; number < load.producers; number++) {
                int own = number;
                running.add(threads.submit(() -> writeLots(producers.get(own), own % load.partitions, until)));
            }
            List<Long> nanoseconds = new ArrayList<>();
            for (Future<List<Long>> done : running) nanoseconds.addAll(done.get());
            Collections.sort(nanoseconds);
            int lots = nanoseconds.size();
            return String.join(" ", name, "" + lots, "" + nanoseconds.get(lots / 2), "" + (brokerTicks() - ticks));
        }

        List<Long> writeLots(KafkaProducer<byte[], byte[]> producer, int partition, long until) {
            byte[] value = new byte[load.bytes];
            for (int index = 0; index < value.length; index++) value[index] = (byte) (index * 31 % 251);
            List<Long> taken = new ArrayList<>();
            long began = System.nanoTime();
            while (began < until) {
                if (isTransactional()) producer.beginTransaction();
                for (int sent = 0; sent < load.records; sent++)
                    producer.send(new ProducerRecord<>(load.topic, partition, null, value), (metadata, error) -> {
                        if (error != null) failure = error;
                    });
                if (isTransactional()) producer.commitTransaction();
                else producer.flush();
                if (failure != null) throw new IllegalStateException(failure);
                long ended = System.nanoTime();
                taken.add(ended - began);
                began = ended;
            }
            return taken;
        }

        long brokerTicks() throws Exception {
            String status = Files.readString(Path.of("/proc", load.brokerPid, "stat"));
            String[] fields = status.substring(status.lastIndexOf(')') + 2).split(" ");
            return Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
        }

        void close() {
            threads.shutdown();
            producers.forEach(KafkaProducer::close);
        }
    }
}
