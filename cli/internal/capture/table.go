package capture

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// shownFaults is the number of faults WriteTable lists.
const shownFaults = 10

// WriteTable writes the report for people: a line for each direction that
// had packets. The error is the writer's.
func (r *Report) WriteTable(w io.Writer) error {
	var b strings.Builder
	compressed := ""
	if r.Gzipped {
		compressed = ", gzipped"
	}
	fmt.Fprintf(&b, "%s%s: %d frames in %.6g s, %d of them RoCEv2\n", r.Format, compressed, r.Frames, r.DurationS, r.RoCE)
	fmt.Fprintf(&b, "ICRCs: %d good, %d bad\n", r.GoodICRCs, r.BadICRCs)
	if r.UncheckedICRC > 0 {
		fmt.Fprintf(&b, "not checked: cut off by the capture's snap length: %d packets\n", r.UncheckedICRC)
	}
	if r.UncheckedOffload > 0 {
		fmt.Fprintf(&b, "not checked: segmentation offload: %d packets\n", r.UncheckedOffload)
	}
	if r.SplitFrames > 0 {
		fmt.Fprintf(&b, "split: %d frames of several packets (segmentation offload)\n", r.SplitFrames)
	}
	if r.UnsupportedLinks > 0 {
		fmt.Fprintf(&b, "not read: %d frames of other links than Ethernet, raw IP and Linux cooked\n", r.UnsupportedLinks)
	}
	if len(r.Malformed) > 0 {
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(r.Malformed)) {
			parts = append(parts, fmt.Sprintf("%d %s", r.Malformed[key], key))
		}
		fmt.Fprintf(&b, "malformed: %s\n", strings.Join(parts, ", "))
	}
	for i, f := range r.Faults {
		if i == shownFaults {
			fmt.Fprintf(&b, "  and more\n")
			break
		}
		fmt.Fprintf(&b, "  frame %d: %s\n", f.Frame, f.What)
	}
	if len(r.Connections) > 0 {
		b.WriteString("\n")
		r.writeConnections(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeConnections leaves columns out in which there is nothing.
func (r *Report) writeConnections(w io.Writer) {
	rows := [][]string{{
		"from", "QP", "to", "QP", "service", "packets", "payload[B]", "messages", "ACK", "NAK", "RNR", "resent", "late", "CNP", "CE", "bad ICRC",
		"RTT[us] min/avg/max",
	}}
	for _, c := range r.Connections {
		rows = addRow(rows, c, c.A, c.B, &c.AToB)
		rows = addRow(rows, c, c.B, c.A, &c.BToA)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		var cells []string
		for i, cell := range row {
			if !emptyColumn(rows[1:], i) {
				cells = append(cells, cell)
			}
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush() // a strings.Builder takes everything
}

func emptyColumn(rows [][]string, i int) bool {
	for _, row := range rows {
		if row[i] != "0" && row[i] != "-" {
			return false
		}
	}
	return true
}

// addRow appends a row for the direction d of c if it had packets.
func addRow(rows [][]string, c *Connection, from, to Endpoint, d *Direction) [][]string {
	if d.Packets == 0 && d.BadICRCs == 0 {
		return rows
	}
	rtt := "-"
	if d.RTT != nil {
		rtt = fmt.Sprintf("%.6g/%.6g/%.6g", d.RTT.MinUS, d.RTT.AvgUS, d.RTT.MaxUS)
	}
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	return append(rows, []string{
		from.IP.String(), from.qp(), to.IP.String(), to.qp(), c.Service, n(d.Packets), n(d.PayloadBytes), d.describe(), n(d.Acks), d.NAKs.describe(),
		n(d.RNRNAKs), n(d.RetransmittedPackets), n(d.OutOfOrderPackets), n(d.CNPs), n(d.ECNCEPackets), n(d.BadICRCs), rtt,
	})
}

func (e Endpoint) qp() string {
	if e.QP == nil {
		return "?"
	}
	return fmt.Sprintf("%#x", *e.QP)
}

type count struct {
	n    int64
	what string
}

func list(counts []count) string {
	var parts []string
	for _, c := range counts {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", c.n, c.what))
		}
	}
	if parts == nil {
		return "-"
	}
	return strings.Join(parts, ", ")
}

// describe lists a direction's messages, those of CM by name.
func (d *Direction) describe() string {
	m := &d.Messages
	send := count{m.Send, "SEND"}
	counts := []count{
		{m.SendImm, "SEND+imm"}, {m.SendInv, "SEND+inv"}, {m.Write, "WRITE"}, {m.WriteImm, "WRITE+imm"}, {m.Read, "READ"},
		{m.CompareSwap, "CMP_SWAP"}, {m.FetchAdd, "FETCH_ADD"},
	}
	var cm []count
	for _, name := range slices.Sorted(maps.Keys(d.CM)) {
		cm = append(cm, count{d.CM[name], name})
		send.n -= d.CM[name]
	}
	return list(append(append([]count{send}, counts...), cm...))
}

func (n *NAKs) describe() string {
	return list([]count{
		{n.Sequence, "sequence"}, {n.Invalid, "invalid request"}, {n.Access, "access"}, {n.Operation, "operational"}, {n.Other, "other"},
	})
}
