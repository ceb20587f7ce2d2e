package perf

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/sluice-rdma/sluice/bench/internal/stats"
)

const rule = "---------------------------------------------------------------------------------------\n"

// Head writes the lines before the heading of the rows: what runs, and between
// which ends.
func Head(w io.Writer, test Test, r *Result) error {
	title := test.title()
	if r.Bidirectional {
		title = strings.Replace(title, " BW", " Bidirectional BW", 1)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%20s%s\n", rule, "", title)
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	pair := func(k1 string, v1 any, k2 string, v2 any) { fmt.Fprintf(t, " %s\t: %v\t%s\t: %v\n", k1, v1, k2, v2) }
	pair("Device", r.Device, "Peer", r.Peer)
	pair("Role", r.Role, "Connection type", r.Service)
	pair("Number of qps", r.QPs, "Mtu", fmt.Sprintf("%d[B]", r.MTU))
	pair("GID index", r.GIDIndex, "GID", r.GID)
	switch {
	case r.OutReads > 0:
		pair("TX depth", r.TxDepth, "Outstand reads", r.OutReads)
	case r.RxDepth > 0:
		pair("TX depth", r.TxDepth, "RX depth", r.RxDepth)
	default:
		pair("TX depth", r.TxDepth, "Max inline data", fmt.Sprintf("%d[B]", r.InlineBytes))
	}
	if r.PostList > 1 {
		fmt.Fprintf(t, " Post List\t: %d\n", r.PostList)
	}
	if r.Pacing != "" {
		fmt.Fprintf(t, " Pacing\t: %s\n", r.Pacing)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	b.WriteString(rule)
	_, err := io.WriteString(w, b.String())
	return err
}

// LineHead writes the names of a row's columns.
func LineHead(w io.Writer, test Test) error {
	head := " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
	if test.Latency {
		head = " #bytes   #iterations  t_min[usec]  t_max[usec]  t_typical[usec]  t_avg[usec]  t_stdev[usec]  99% percentile[usec]  99.9% percentile[usec]\n"
	}
	_, err := io.WriteString(w, head)
	return err
}

// Line writes a row. The columns and their content are perftest's; what was not
// measured is 0.
func Line(w io.Writer, row *Row) error {
	v := func(f stats.Float) float64 {
		if !f.Measured() {
			return 0
		}
		return float64(f)
	}
	var err error
	if l := row.Latency; l != nil {
		_, err = fmt.Fprintf(w, " %-8d %-12d %-12.2f %-12.2f %-16.2f %-12.2f %-14.2f %-21.2f %.2f\n",
			row.Bytes, row.Iterations, v(l.MinUs), v(l.MaxUs), v(l.TypicalUs), v(l.AvgUs), v(l.StdevUs), v(l.P99Us), v(l.P999Us))
		return err
	}
	b, digits := row.Bandwidth, 2
	if v(b.ThroughputGbps) < 0.1 {
		digits = 6
	}
	_, err = fmt.Fprintf(w, " %-10d %-14d %-18.*f %-20.*f %.6f\n", row.Bytes, row.Iterations, digits, v(b.PeakGbps), digits, v(b.ThroughputGbps), v(b.MessageRateMpps))
	return err
}

// Foot writes the lines after the rows.
func Foot(w io.Writer) error {
	_, err := io.WriteString(w, rule)
	return err
}

// Document is what a call of the program writes as JSON.
type Document struct {
	Version     int               `json:"version"`
	StartTime   string            `json:"start_time"`
	Arguments   []string          `json:"arguments"`
	Environment stats.Environment `json:"environment"`
	Results     []*Result         `json:"results"`
}

// FormatVersion is the version of the JSON.
const FormatVersion = 1
