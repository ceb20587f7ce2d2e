package replay

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Reader reads a recording. Chunks of different streams follow each other as they
// were filled, so records are in the order of their times within a stream only.
type Reader struct {
	r       *bufio.Reader
	streams []Stream
	dropped []uint64 // of each stream
	chunk   cursor
	buf     []byte
	stream  int // of chunk
	left    uint64
	known   map[uint32]*last // queue pairs of the chunk
	ended   bool
}

// NewReader begins to read a recording. An error that wraps ErrCorrupt means that r
// is not a recording, or one of another version.
func NewReader(r io.Reader) (*Reader, error) {
	d := &Reader{r: bufio.NewReader(r)}
	head := make([]byte, len(magic)+1)
	if _, err := io.ReadFull(d.r, head); err != nil || string(head[:len(magic)]) != magic {
		return nil, fmt.Errorf("%w: it does not begin as one that sluice perf --record wrote", ErrCorrupt)
	}
	if head[len(magic)] != formatVersion {
		return nil, fmt.Errorf("%w: it has version %d of the format, and this program reads version %d", ErrCorrupt, head[len(magic)], formatVersion)
	}
	return d, nil
}

// Streams returns the streams whose records have been read so far.
func (d *Reader) Streams() []Stream { return d.streams }

// Dropped returns how many records of a stream were not recorded, as far as has
// been read: those for which the disk was too slow.
func (d *Reader) Dropped(stream int) uint64 { return d.dropped[stream] }

// Next reads the next record into r. It returns io.EOF after the last one, and
// io.ErrUnexpectedEOF, wrapped, where the recording breaks off: all records before
// are good.
func (d *Reader) Next(r *Record) error {
	for d.left == 0 {
		if len(d.chunk.b) > 0 {
			return fmt.Errorf("%w: %d bytes after the last record of a chunk", ErrCorrupt, len(d.chunk.b))
		}
		if d.ended {
			return io.EOF
		}
		if err := d.block(); err != nil {
			return err
		}
	}
	if err := d.chunk.decode(r, d.find); err != nil {
		return err
	}
	r.Stream = d.stream
	d.left--
	return nil
}

func (d *Reader) find(qpn uint32, first bool) *last {
	l := d.known[qpn]
	if first && l == nil {
		l = new(last)
		d.known[qpn] = l
	}
	if first {
		*l = last{}
	}
	return l
}

// block reads the next block.
func (d *Reader) block() error {
	kind, err := d.r.ReadByte()
	if err != nil {
		return broken(err)
	}
	switch kind {
	case blockEnd:
		d.ended = true
		return nil
	case blockStream:
		text, err := d.bytes(maxHeader)
		if err != nil {
			return err
		}
		var s Stream
		if err := json.Unmarshal(text, &s); err != nil {
			return fmt.Errorf("%w: the description of a stream: %w", ErrCorrupt, err)
		}
		if err := s.Env().Validate(); err != nil {
			return fmt.Errorf("%w: stream %s: %w", ErrCorrupt, s.Device, err)
		}
		if len(d.streams) == maxStreams {
			return fmt.Errorf("%w: it has more than %d streams", ErrCorrupt, maxStreams)
		}
		d.streams, d.dropped = append(d.streams, s), append(d.dropped, 0)
		return nil
	case blockChunk:
		stream, err := binary.ReadUvarint(d.r)
		if err != nil {
			return broken(err)
		}
		if stream >= uint64(len(d.streams)) {
			return fmt.Errorf("%w: records of stream %d, which has no description", ErrCorrupt, stream)
		}
		dropped, err := binary.ReadUvarint(d.r)
		if err != nil {
			return broken(err)
		}
		records, err := binary.ReadUvarint(d.r)
		if err != nil {
			return broken(err)
		}
		text, err := d.bytes(maxChunk)
		if err != nil {
			return err
		}
		d.stream, d.dropped[stream], d.left = int(stream), dropped, records
		d.chunk, d.known = cursor{b: text}, map[uint32]*last{}
		return nil
	}
	return fmt.Errorf("%w: a block of kind %d", ErrCorrupt, kind)
}

// bytes reads a length and as many bytes, which are valid until the next call.
func (d *Reader) bytes(most uint64) ([]byte, error) {
	n, err := binary.ReadUvarint(d.r)
	if err != nil {
		return nil, broken(err)
	}
	if n > most {
		return nil, fmt.Errorf("%w: a block of %d bytes", ErrCorrupt, n)
	}
	if uint64(cap(d.buf)) < n {
		d.buf = make([]byte, n)
	}
	d.buf = d.buf[:n]
	_, err = io.ReadFull(d.r, d.buf)
	return d.buf, broken(err)
}

// broken makes the end of the file inside a block what it is.
func broken(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the recording breaks off: %w", io.ErrUnexpectedEOF)
	}
	return err
}
