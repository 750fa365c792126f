import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.record.*;

/** Prints one line of JSON per batch that Apache Kafka's own builder makes of the records described in the README. */
public class BuildBatches {
    static final long NOW = 1_700_000_000_000L;

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static MemoryRecordsBuilder builder(
            Compression compression, TimestampType type, long producerId, boolean transactional, boolean control) {
        short epoch = (short) (producerId < 0 ? -1 : 3);
        int sequence = producerId < 0 ? -1 : 7;
        return MemoryRecords.builder(
                ByteBuffer.allocate(1 << 20), RecordBatch.MAGIC_VALUE_V2, compression, type, 100L, NOW + 5000,
                producerId, epoch, sequence, transactional, control, 9);
    }

    static void everyKind(MemoryRecordsBuilder builder) {
        builder.append(NOW, utf8("key"), utf8("value"));
        builder.append(NOW - 250, null, utf8("no key, and earlier than the first"));
        builder.append(NOW + 70_000, utf8("no value"), null);
        builder.append(NOW, new byte[0], new byte[0], new Header[] {
            new RecordHeader("name", utf8("content")), new RecordHeader("null", (byte[]) null),
            new RecordHeader("", new byte[0]), new RecordHeader("größe", new byte[] {(byte) 0xff, 0}),
        });
        builder.append(NOW + 1, (byte[]) null, null);
        builder.append(NOW + 2, utf8("long"), utf8("0123456789".repeat(8000)));
    }

    static void print(String name, ByteBuffer batch) {
        byte[] bytes = new byte[batch.remaining()];
        batch.get(bytes);
        System.out.println("{\"name\": \"" + name + "\", \"batch\": \"" + Base64.getEncoder().encodeToString(bytes) + "\"}");
    }

    static void print(String name, MemoryRecordsBuilder builder) {
        everyKind(builder);
        print(name, builder.build().buffer());
    }

    public static void main(String[] arguments) {
        for (CompressionType type : List.of(CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD)) {
            print(type.name, builder(Compression.of(type).build(), TimestampType.CREATE_TIME, -1, false, false));
        }
        print("log append time", builder(Compression.of(CompressionType.LZ4).build(), TimestampType.LOG_APPEND_TIME, -1, false, false));
        print("idempotent", builder(Compression.of(CompressionType.GZIP).build(), TimestampType.CREATE_TIME, 4000, false, false));
        print("transactional", builder(Compression.of(CompressionType.ZSTD).build(), TimestampType.CREATE_TIME, 4000, true, false));
        MemoryRecordsBuilder plain = builder(Compression.NONE, TimestampType.CREATE_TIME, -1, false, false);
        plain.append(NOW, utf8("key"), utf8("value"));
        plain.append(NOW - 1, (byte[]) null, null);
        print("uncompressed", plain.build().buffer());
        for (ControlRecordType end : List.of(ControlRecordType.COMMIT, ControlRecordType.ABORT)) {
            print(end.name().toLowerCase(), MemoryRecords.withEndTransactionMarker(
                    100L, NOW, 9, 4000, (short) 3, new EndTransactionMarker(end, 11)).buffer());
        }
        LeaderChangeMessage change = new LeaderChangeMessage().setVersion((short) 0).setLeaderId(2)
                .setVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(1), new LeaderChangeMessage.Voter().setVoterId(2)))
                .setGrantingVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(2)));
        print("leader change", MemoryRecords.withLeaderChangeMessage(100L, NOW, 9, ByteBuffer.allocate(1000), change).buffer());
    }
}
