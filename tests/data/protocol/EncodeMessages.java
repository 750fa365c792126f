// Reads {"name", "version", "value"} a line from standard input and writes the bytes that Apache Kafka's own classes
// encode for it, in hexadecimal. Run by tests/unit/wire/record_apache_kafka.py.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

public class EncodeMessages {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.raft.generated.",
    };

    public static void main(String[] arguments) throws Exception {
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode row = mapper.readTree(line);
            short version = (short) row.get("version").asInt();
            Message message = (Message) converter(row.get("name").asText())
                .getMethod("read", JsonNode.class, short.class)
                .invoke(null, row.get("value"), version);
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(buffer), cache, version);
            System.out.println(HexFormat.of().formatHex(buffer.array()));
        }
    }

    private static Class<?> converter(String name) throws ClassNotFoundException {
        for (String inPackage : PACKAGES) {
            for (String suffix : new String[] {"JsonConverter", "DataJsonConverter"}) {
                try {
                    return Class.forName(inPackage + name + suffix);
                } catch (ClassNotFoundException elsewhere) {
                    // Another package or spelling has it, or the last line throws.
                }
            }
        }
        throw new ClassNotFoundException(name);
    }
}
