package replay

import (
	"bytes"
	"errors"
	"io"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluice-rdma/sluice/cc"
	"github.com/sluice-rdma/sluice/internal/infile"
	"github.com/sluice-rdma/sluice/telemetry"
	"github.com/sluice-rdma/sluice/units"
)

var lab = Stream{Device: "sim:lab/h0", Engine: "timely", Line: 100e9, Base: 20, MTU: 1024}

func drawAck(t *rapid.T) (cc.Ack, cc.Control) {
	span := rapid.OneOf(rapid.Int64Range(0, 1e9), rapid.Int64Range(0, math.MaxInt64/4))
	a := cc.Ack{
		Now: units.Time(span.Draw(t, "now")), RTT: units.Time(span.Draw(t, "rtt")), NetRTT: units.Time(span.Draw(t, "net")),
		Bytes: units.Bytes(span.Draw(t, "bytes")), Packets: rapid.Int32Range(1, math.MaxInt32).Draw(t, "packets"),
		Acked: units.Bytes(span.Draw(t, "acked")), Sent: units.Bytes(span.Draw(t, "sent")),
		ECN: rapid.Bool().Draw(t, "ecn"), EIN: rapid.Bool().Draw(t, "ein"), AppLimited: rapid.Bool().Draw(t, "limited"),
		Scale: rapid.SampledFrom([]float64{1, 1, 0.25, 1.0 / 3}).Draw(t, "scale"),
	}
	a.SentAt = a.Now - a.RTT
	if rapid.Bool().Draw(t, "clamped") {
		a.SentAt -= 77
	}
	if rapid.Bool().Draw(t, "delay") {
		a.HasMaxDelay, a.MaxHopDelay, a.ReverseMaxHopDelay = true, units.Time(span.Draw(t, "hop")), units.Time(span.Draw(t, "reverse"))
	}
	if rapid.Bool().Draw(t, "path") {
		a.Path = &telemetry.Stack{}
		for range rapid.IntRange(0, telemetry.MaxHops+1).Draw(t, "hops") {
			a.Path.Push(telemetry.Hop{
				TxBytes: units.Bytes(span.Draw(t, "tx")), QLen: units.Bytes(span.Draw(t, "queue")),
				Time: units.Time(span.Draw(t, "time")), Rate: units.Rate(span.Draw(t, "rate")),
			})
		}
	}
	window := cc.Unlimited
	if rapid.Bool().Draw(t, "window") {
		window = units.Bytes(span.Draw(t, "bytes of window") + 1)
	}
	return a, cc.Control{Rate: units.Rate(span.Draw(t, "control") + 1), Window: window}
}

// What was recorded is read back, of several streams and queue pairs, also where
// controls repeat and chunks end.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var file bytes.Buffer
		rec := NewRecorder(&file)
		other := lab
		other.Device, other.Set = "sim:lab/h1", []string{"t_low=50us"}
		descriptions := []Stream{lab, other}
		var sources []*Source
		for _, s := range descriptions {
			src, err := rec.Source(s)
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, src)
		}
		type seen struct {
			QPN     uint32
			Ack     cc.Ack
			Control cc.Control
		}
		want := make([][]seen, len(sources))
		n := rapid.IntRange(0, 12).Draw(t, "records")
		repeat := rapid.SampledFrom([]int{1, 1, 1, 100}).Draw(t, "repeat") // past a chunk
		for range n {
			stream := rapid.IntRange(0, 1).Draw(t, "stream")
			qpn := rapid.SampledFrom([]uint32{0, 17, 1 << 23, math.MaxUint32}).Draw(t, "qpn")
			a, c := drawAck(t)
			for range repeat {
				sources[stream].Record(qpn, &a, c)
				want[stream] = append(want[stream], seen{qpn, a, c})
			}
		}
		if err := rec.Close(); err != nil {
			t.Fatal(err)
		}
		got := make([][]seen, len(sources))
		d, err := NewReader(&file)
		if err != nil {
			t.Fatal(err)
		}
		for {
			var r Record
			err := d.Next(&r)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got[r.Stream] = append(got[r.Stream], seen{r.QPN, r.Ack, r.Control})
		}
		if diff := cmp.Diff(descriptions, d.Streams()); diff != "" {
			t.Fatal(diff)
		}
		for i := range want {
			if int(d.Dropped(i)) != len(want[i])-len(got[i]) {
				t.Fatalf("%d records of %d, %d dropped", len(got[i]), len(want[i]), d.Dropped(i))
			}
			if d.Dropped(i) > 0 {
				continue // the writer did not keep up, which is not this test's matter
			}
			if diff := cmp.Diff(want[i], got[i]); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// stuck is a disk that does not answer until it is let go.
type stuck struct {
	bytes.Buffer
	release chan struct{}
}

func (s *stuck) Write(b []byte) (int, error) {
	<-s.release
	return s.Buffer.Write(b)
}

// With a disk that stands still, records are dropped, counted and never waited for;
// kept ones are whole.
func TestADiskThatStandsStill(t *testing.T) {
	disk := &stuck{release: make(chan struct{})}
	rec := NewRecorder(disk)
	src, err := rec.Source(lab)
	if err != nil {
		t.Fatal(err)
	}
	const all = 200_000
	a := cc.Ack{RTT: 10, NetRTT: 5, Bytes: 1000, Packets: 1, Scale: 1}
	for i := range units.Time(all) {
		a.Now, a.SentAt, a.Acked, a.Sent = i*1000, i*1000-10, units.Bytes(i+1)*1000, units.Bytes(i+2)*1000
		src.Record(uint32(i%7), &a, cc.Control{Rate: units.Rate(i + 1), Window: cc.Unlimited})
	}
	if src.Dropped() == 0 {
		t.Error("nothing was dropped")
	}
	close(disk.release)
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	d, err := NewReader(&disk.Buffer)
	if err != nil {
		t.Fatal(err)
	}
	n := uint64(0)
	var r Record
	for ; ; n++ {
		if err := d.Next(&r); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		i := units.Time(r.Control.Rate - 1)
		if r.Ack.Now != i*1000 || r.QPN != uint32(i%7) || r.Ack.Sent != units.Bytes(i+2)*1000 {
			t.Fatalf("record %d is %+v", n, r)
		}
	}
	if n+src.Dropped() != all || d.Dropped(0) != src.Dropped() {
		t.Errorf("%d records and %d dropped, the file says %d, of %d", n, src.Dropped(), d.Dropped(0), all)
	}
}

// An error of the disk is Close's.
func TestAFullDisk(t *testing.T) {
	rec := NewRecorder(full{})
	src, err := rec.Source(lab)
	if err != nil {
		t.Fatal(err)
	}
	src.Record(1, &cc.Ack{Scale: 1}, cc.Control{Rate: 1, Window: 1})
	if err := rec.Close(); !errors.Is(err, errFull) {
		t.Errorf("error %v", err)
	}
	if err := rec.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	if _, err := rec.Source(lab); err == nil {
		t.Error("a closed recorder takes a stream")
	}
}

var errFull = errors.New("no space")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestRecordDoesNotAllocate(t *testing.T) {
	rec := NewRecorder(io.Discard)
	src, err := rec.Source(lab)
	if err != nil {
		t.Fatal(err)
	}
	a := cc.Ack{RTT: 10, NetRTT: 5, Bytes: 1000, Packets: 1, Scale: 0.5, Path: &telemetry.Stack{N: 3}}
	if n := testing.AllocsPerRun(20_000, func() {
		a.Now += 1000
		src.Record(uint32(a.Now%20), &a, cc.Control{Rate: units.Rate(a.Now), Window: cc.Unlimited})
	}); n != 0 {
		t.Errorf("a record takes %v allocations", n)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkRecord(b *testing.B) {
	rec := NewRecorder(io.Discard)
	src, err := rec.Source(lab)
	if err != nil {
		b.Fatal(err)
	}
	a := cc.Ack{RTT: 10_000_000, NetRTT: 9_000_000, Bytes: 16384, Packets: 16, Scale: 1}
	b.ReportAllocs()
	for b.Loop() {
		a.Now += 1_310_720
		a.Acked += 16384
		a.Sent += 16384
		a.RTT += a.Now & 0xffff
		src.Record(17, &a, cc.Control{Rate: 100e9, Window: cc.Unlimited})
	}
	b.ReportMetric(float64(src.Dropped()), "dropped")
	if err := rec.Close(); err != nil {
		b.Fatal(err)
	}
}

// example is a small recording.
func example(t testing.TB) []byte {
	var file bytes.Buffer
	rec := NewRecorder(&file)
	src, err := rec.Source(lab)
	if err != nil {
		t.Fatal(err)
	}
	for i := range units.Time(5) {
		a := cc.Ack{Now: i * 100, SentAt: i*100 - 30, RTT: 30, NetRTT: 20, Bytes: 10, Packets: 1, Scale: 1}
		if i == 3 {
			a.Path, a.HasMaxDelay, a.Scale = &telemetry.Stack{N: 2}, true, 0.5
		}
		src.Record(uint32(i%2), &a, cc.Control{Rate: units.Rate(i + 1), Window: 5})
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}
	return file.Bytes()
}

// A recording that breaks off anywhere says so, and gives what is before.
func TestRecordingsThatBreakOff(t *testing.T) {
	whole := example(t)
	for n := range whole {
		records, err := readAll(whole[:n])
		if err == nil || n > len(magic) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the first %d of %d bytes: %d records, error %v", n, len(whole), records, err)
		}
	}
	if n, err := readAll(whole); n != 5 || err != nil {
		t.Errorf("%d records, %v", n, err)
	}
	other := bytes.Clone(whole)
	other[len(magic)]++
	if _, err := readAll(other); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another version: %v", err)
	}
}

func readAll(b []byte) (n int, err error) {
	d, err := NewReader(bytes.NewReader(b))
	if err != nil {
		return 0, err
	}
	for {
		var r Record
		if err := d.Next(&r); errors.Is(err, io.EOF) {
			return n, nil
		} else if err != nil {
			return n, err
		}
		n++
	}
}

// No file makes the reader panic, spin or take memory without bound.
func FuzzReader(f *testing.F) {
	whole := example(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		var n int
		var err error
		infile.Within(t, func() { n, err = readAll(b) })
		if err == nil && len(b) == 0 {
			t.Error("nothing is a recording")
		}
		if n > 13*len(b) {
			t.Errorf("%d records from %d bytes", n, len(b))
		}
	})
}
