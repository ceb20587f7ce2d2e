package perf

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

// Summary writes what perftest's figures do not cover: for each row a line on what
// the engines did, and what limited them. It writes nothing where nothing was paced
// or repaired.
func Summary(w io.Writer, r *Result) error {
	var b strings.Builder
	engine, windows := false, false
	for _, row := range r.Rows {
		windows = windows || row.Engine != nil && row.Engine.WindowBytes.Measured()
	}
	for _, row := range r.Rows {
		if row.Engine == nil {
			continue
		}
		if !engine {
			engine = true
			window := ""
			if windows {
				window = "window[KiB]  "
			}
			b.WriteString(" #bytes     rtt p50[usec]  rtt p99[usec]  rate[Gb/sec]  lowest    highest   floor     ceiling   at floor[%]  " + window + "retr      timeouts  cuts\n")
		}
		writeEngine(&b, row, windows)
	}
	for _, row := range r.Rows {
		if p := row.Repairs; row.Engine == nil && p != nil && (p.any() || row.Outage != nil) {
			fmt.Fprintf(&b, " %-10d %v\n", row.Bytes, p)
		}
	}
	for _, row := range r.Rows {
		if o := row.Outage; o != nil {
			fmt.Fprintf(&b, " %-10d longest time without a completion: %s us, from %.6f s on\n", row.Bytes, hundredths(o.LongestUs), float64(o.AtSeconds))
		}
		if n := row.Reconnects; n > 0 {
			fmt.Fprintf(&b, " %-10d connections made anew: %d\n", row.Bytes, n)
		}
	}
	for _, row := range r.Rows {
		if e := row.Engine; e != nil && e.Bypassed > 0 {
			fmt.Fprintf(&b, " %-10d %.1f %% of round trips were spared the engine\n", row.Bytes, 100*float64(e.Bypassed))
		}
	}
	for _, h := range hints(r) {
		b.WriteString(" " + h + "\n")
	}
	if b.Len() == 0 {
		return nil
	}
	b.WriteString(rule)
	_, err := io.WriteString(w, b.String())
	return err
}

func writeEngine(b *strings.Builder, row *Row, windows bool) {
	e := row.Engine
	retransmitted, timeouts := "-", "-"
	if p := row.Repairs; p != nil {
		retransmitted, timeouts = plain(p.Retransmitted), plain(p.Timeouts)
	}
	percent := "-"
	if e.AtFloor.Measured() {
		percent = fmt.Sprintf("%.1f", 100*float64(e.AtFloor))
	}
	window := ""
	if windows {
		kib := e.WindowBytes / 1024
		window = fmt.Sprintf("%-12s ", hundredths(kib))
	}
	fmt.Fprintf(b, " %-10d %-14s %-14s %-13s %-9s %-9s %-9s %-9s %-12s %s%-9s %-9s %s\n",
		row.Bytes, hundredths(e.RTTP50Us), hundredths(e.RTTP99Us), gigabits(e.RateGbps), gigabits(e.LowestGbps), gigabits(e.HighestGbps),
		gigabits(e.FloorGbps), gigabits(e.CeilingGbps), percent, window, retransmitted, timeouts, e.Cuts)
}

// String is as in "12 by RTT, 3 by CNP".
func (c Cuts) String() string {
	var parts []string
	for _, x := range []struct {
		n  uint64
		by string
	}{{c.RTT, "RTT"}, {c.ECN, "ECN"}, {c.CNP, "CNP"}, {c.EIN, "EIN"}, {c.Telemetry, "telemetry"}} {
		if x.n > 0 {
			parts = append(parts, fmt.Sprintf("%d by %s", x.n, x.by))
		}
	}
	if len(parts) == 0 {
		return "0"
	}
	return strings.Join(parts, ", ")
}

// String names the counters; what is not counted is "-".
func (p *Repairs) String() string {
	return fmt.Sprintf("packets sent again: %s, sequence errors: %s, timeouts: %s, RNR NAKs: %s",
		plain(p.Retransmitted), plain(p.SequenceErrors), plain(p.Timeouts), plain(p.RNRNAKs))
}

func (p *Repairs) any() bool {
	return p.Retransmitted > 0 || p.SequenceErrors > 0 || p.Timeouts > 0 || p.RNRNAKs > 0
}

// IntervalHead writes the heading of intervals.
func IntervalHead(w io.Writer) error {
	_, err := io.WriteString(w, " interval[sec]        transfer[MiB]  bitrate[Gb/sec]  retr      rtt p50[usec]  rtt p99[usec]  rate[Gb/sec]\n")
	return err
}

// IntervalLine writes an interval, of intervals so long, as iperf3 does.
func IntervalLine(w io.Writer, i *Interval, each time.Duration) error {
	digits := 2
	for least := 100 * time.Millisecond; each < least && digits < 7; least /= 10 {
		digits++
	}
	span := fmt.Sprintf("%.*f-%.*f", digits, float64(i.StartSeconds), digits, float64(i.EndSeconds))
	retransmitted, p50, p99, rate := "-", "-", "-", "-"
	if i.Repairs != nil {
		retransmitted = plain(i.Repairs.Retransmitted)
	}
	if e := i.Engine; e != nil {
		p50, p99, rate = hundredths(e.RTTP50Us), hundredths(e.RTTP99Us), gigabits(e.RateGbps)
	}
	_, err := fmt.Fprintf(w, " %-20s %-14.2f %-16s %-9s %-14s %-14s %s\n", span, float64(i.Bytes)/(1<<20), gigabits(i.ThroughputGbps), retransmitted, p50, p99, rate)
	return err
}

func plain(f stats.Float) string {
	if !f.Measured() {
		return "-"
	}
	return strconv.FormatFloat(float64(f), 'f', -1, 64)
}

func hundredths(f stats.Float) string {
	if !f.Measured() {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(f))
}

// gigabits has the digits of a bandwidth row.
func gigabits(f stats.Float) string {
	switch {
	case !f.Measured():
		return "-"
	case f != 0 && f < 0.1:
		return fmt.Sprintf("%.6f", float64(f))
	}
	return fmt.Sprintf("%.2f", float64(f))
}
