package replay

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"

	"github.com/sluice-rdma/sluice/cc"
)

// Recorder writes a recording. Each stream fills chunks of its own, which a
// goroutine writes; where that is too slow, records are dropped and counted, and
// their writers never wait. Make one with NewRecorder.
type Recorder struct {
	w       *bufio.Writer
	full    chan *chunk
	done    chan struct{}
	mu      sync.Mutex // of streams, err and w's order
	streams []*Source
	err     error
	closed  bool
}

const (
	chunkBytes = 64 << 10
	chunks     = 16 // of each stream
)

// chunk is records of one stream on their way to the file, or a description.
type chunk struct {
	from    *Source
	text    []byte
	records uint64
	dropped uint64
}

// NewRecorder begins a recording.
func NewRecorder(w io.Writer) *Recorder {
	r := &Recorder{w: bufio.NewWriter(w), full: make(chan *chunk, 4*chunks), done: make(chan struct{})}
	if _, err := r.w.WriteString(magic); err != nil {
		r.err = err
	}
	if err := r.w.WriteByte(formatVersion); err != nil {
		r.err = err
	}
	go r.run()
	return r
}

// Source takes the records of one stream. Its methods must not run concurrently
// with each other; those of different sources may.
type Source struct {
	rec     *Recorder
	number  uint64
	free    chan *chunk
	now     *chunk // being filled; nil if none was free
	filled  uint64 // chunks started, by which those tracked know theirs
	table   []tracked
	used    int
	dropped atomic.Uint64
}

// tracked is a queue pair in a Source's table: open addressing, by QPN.
type tracked struct {
	qpn    uint32
	taken  bool
	filled uint64 // the chunk of the last record
	last   last
}

// Source adds a stream.
func (r *Recorder) Source(s Stream) (*Source, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	if err := s.Env().Validate(); err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, errors.New("replay: the recorder is closed")
	}
	src := &Source{rec: r, number: uint64(len(r.streams)), free: make(chan *chunk, chunks+1), table: make([]tracked, 64)}
	for range chunks {
		src.free <- &chunk{from: src, text: make([]byte, 0, chunkBytes)}
	}
	r.streams = append(r.streams, src)
	r.full <- &chunk{text: text}
	return src, nil
}

// Record takes an update of the engine of a queue pair. It never waits, and
// allocates only where it meets more queue pairs than ever before.
func (s *Source) Record(qpn uint32, a *cc.Ack, c cc.Control) {
	if s.now == nil || len(s.now.text)+mostRecord > chunkBytes {
		if !s.turn() {
			s.dropped.Add(1)
			return
		}
	}
	e := s.tracked(qpn)
	first := e.filled != s.filled
	e.filled = s.filled
	s.now.text = encode(s.now.text, qpn, first, &e.last, a, c)
	s.now.records++
}

// Dropped returns how many records were dropped. It may be called at any time.
func (s *Source) Dropped() uint64 { return s.dropped.Load() }

// turn hands on the chunk that is full and takes an empty one.
func (s *Source) turn() bool {
	s.hand()
	select {
	case s.now = <-s.free:
		s.filled++
		s.now.text, s.now.records = s.now.text[:0], 0
		return true
	default:
		return false
	}
}

// hand gives the chunk being filled to the writer. If the writer is that far
// behind, its records are dropped.
func (s *Source) hand() {
	if s.now == nil {
		return
	}
	s.now.dropped = s.dropped.Load()
	select {
	case s.rec.full <- s.now:
	default:
		s.dropped.Add(s.now.records)
		s.free <- s.now // it has room for all there are
	}
	s.now = nil
}

// tracked finds a queue pair's place.
func (s *Source) tracked(qpn uint32) *tracked {
	if 2*s.used >= len(s.table) {
		old := s.table
		s.table, s.used = make([]tracked, 2*len(old)), 0
		for i := range old {
			if old[i].taken {
				*s.place(old[i].qpn) = old[i]
				s.used++
			}
		}
	}
	e := s.place(qpn)
	if !e.taken {
		e.qpn, e.taken = qpn, true
		s.used++
	}
	return e
}

func (s *Source) place(qpn uint32) *tracked {
	mask := uint32(len(s.table) - 1)
	for i := qpn * 2654435769 >> 8 & mask; ; i = (i + 1) & mask {
		if e := &s.table[i]; !e.taken || e.qpn == qpn {
			return e
		}
	}
}

// run writes what streams hand on.
func (r *Recorder) run() {
	defer close(r.done)
	var head []byte
	for c := range r.full {
		head = head[:0]
		if c.from == nil {
			head = append(head, blockStream)
		} else {
			head = append(head, blockChunk)
			head = binary.AppendUvarint(head, c.from.number)
			head = binary.AppendUvarint(head, c.dropped)
			head = binary.AppendUvarint(head, c.records)
		}
		head = binary.AppendUvarint(head, uint64(len(c.text)))
		r.write(head)
		r.write(c.text)
		if c.from != nil {
			c.from.free <- c // it has room for all there are
		}
	}
	r.write([]byte{blockEnd})
}

// write keeps the first error; after it nothing is written.
func (r *Recorder) write(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		_, r.err = r.w.Write(b)
	}
}

// Break ends the recording where it is, with the chunks that are full. Sources may
// be in use; what they record from then on is not written, and Close does nothing more
// to the writer.
func (r *Recorder) Break() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return r.err
	}
	err := r.w.Flush()
	r.err = errors.New("replay: the recording was broken off")
	return err
}

// Close writes what there is and ends the recording. No source may be in use.
func (r *Recorder) Close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.closed = true
	streams := r.streams
	r.mu.Unlock()
	for _, s := range streams {
		last := s.now
		if last == nil {
			last = &chunk{from: s} // says how many were dropped
		}
		last.dropped = s.dropped.Load()
		r.full <- last // here one may wait
		s.now = nil
	}
	close(r.full)
	<-r.done
	if r.err == nil {
		r.err = r.w.Flush()
	}
	return r.err
}
