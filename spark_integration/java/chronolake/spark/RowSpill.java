package chronolake.spark;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Collections;
import java.util.Iterator;
import java.util.NoSuchElementException;
import org.apache.spark.SparkEnv;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.storage.TempLocalBlockId;
import scala.Tuple2;

/**
 * Rows in a temporary file of the executor, compressed and encrypted as Spark's settings say: so a task of
 * many changed rows needs no memory for them.
 */
final class RowSpill implements Closeable {
  private final int width;
  private TempLocalBlockId block;
  private File file;
  private DataOutputStream output;
  private DataInputStream input;
  private long count;

  RowSpill(int width) {
    this.width = width;
  }

  void add(UnsafeRow row) throws IOException {
    if (output == null) {
      Tuple2<TempLocalBlockId, File> created =
          SparkEnv.get().blockManager().diskBlockManager().createTempLocalBlock();
      block = created._1();
      file = created._2();
      var stream = new BufferedOutputStream(new FileOutputStream(file));
      output = new DataOutputStream(SparkEnv.get().serializerManager().wrapStream(block, stream));
    }
    output.writeInt(row.getSizeInBytes());
    row.writeToStream(output, null);
    count++;
  }

  /** All rows, in their order, once. */
  Iterator<InternalRow> iterator() throws IOException {
    if (output == null) {
      return Collections.emptyIterator();
    }
    output.close();
    InputStream stream = new BufferedInputStream(new FileInputStream(file));
    input = new DataInputStream(SparkEnv.get().serializerManager().wrapStream(block, stream));
    return new Rows();
  }

  @Override
  public void close() throws IOException {
    if (input != null) {
      input.close();
    } else if (output != null) {
      output.close();
    }
    if (file != null && !file.delete() && file.exists()) {
      throw new IOException("the temporary file " + file + " cannot be deleted");
    }
  }

  private final class Rows implements Iterator<InternalRow> {
    @Override
    public boolean hasNext() {
      return count > 0;
    }

    @Override
    public InternalRow next() {
      if (count == 0) {
        throw new NoSuchElementException();
      }
      count--;
      try {
        byte[] bytes = new byte[input.readInt()];
        input.readFully(bytes);
        UnsafeRow row = new UnsafeRow(width);
        row.pointTo(bytes, bytes.length);
        return row;
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }
}
