package perf

import "fmt"

// Stamped is what to do where round trips end when they are polled.
const Stamped = "over soft-RoCE or soft:, stamp packets at the network interface: docs/host-ebpf.md"

// hints say what kept the engines, of the row that it kept most, with what can be done
// about it.
func hints(r *Result) []string {
	var out []string
	var worst *Row
	for _, row := range r.Rows {
		e := row.Engine
		if e == nil || !(e.AtFloor > 0) {
			continue
		}
		if worst == nil || e.AtFloor > worst.Engine.AtFloor {
			worst = row
		}
	}
	if worst != nil {
		e := worst.Engine
		out = append(out, fmt.Sprintf("the engine held the rate at its floor, %s Gb/sec, for %.1f %% of the time", gigabits(e.FloorGbps), 100*float64(e.AtFloor)))
	}
	var late *Row
	for _, row := range r.Rows {
		if row.pollsLate() && (late == nil || row.Host.PollGapP99Us > late.Host.PollGapP99Us) {
			late = row
		}
	}
	switch {
	case late != nil:
		h := late.Host
		out = append(out, fmt.Sprintf("this host polls late: it was away from its completions for up to %.0f us (p99 over time; at most %.0f us), where the median round trip is %.0f us",
			float64(h.PollGapP99Us), float64(h.PollGapMaxUs), float64(late.Engine.RTTP50Us)))
		if !h.Timestamps {
			out = append(out, "  -> completions have no timestamps, so a busy host looks like a busy network: "+Stamped)
		}
		out = append(out, "  -> give this process a processor of its own (taskset), or a real-time priority (chrt -r 10)")
	case worst != nil && worst.Host != nil:
		out = append(out, "this host polled in time: what is long is the network's queues, or the other end's answers",
			"  -> where the other end is software on a busy host, give that one a processor of its own (taskset), or a real-time priority (chrt -r 10)")
	}
	return out
}

// pollsLate reports whether the host leaves completions unpolled for longer than a
// median round trip at more than one instant in a hundred. The 99th percentile of
// round trips then shows it.
func (r *Row) pollsLate() bool {
	return r.Host != nil && r.Engine != nil && r.Host.PollGapP99Us > r.Engine.RTTP50Us
}
