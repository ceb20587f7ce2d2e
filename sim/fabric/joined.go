package fabric

import "github.com/sluice-rdma/sluice/units"

// runJoined runs two hosts that are joined to the end of the window. What it does with
// either is what runHost does.
func (x *Lane) runJoined(first, second int32) {
	n, d := x.n, x.n.division
	nodes := [2]int32{first, second}
	due := units.Never
	for _, v := range nodes {
		mail := &d.mail[d.from][v]
		if m := units.Time(mail.Load()); m != units.Never {
			mail.Store(int64(units.Never))
			x.absorb(v)
			due = min(due, m)
		}
		due = min(due, d.next[v])
	}
	if due < d.end {
		end := x.end
		x.later, x.end = units.Never, 0
		for x.stepJoined(&nodes, end) {
		}
		x.end = end
		x.publish()
	}
	for _, v := range nodes {
		at := n.nodes[v].first
		own := &d.alarms[n.nodes[v].index].due
		d.next[v] = min(d.due[3*at], d.due[3*at+1], d.due[3*at+2], own[0], own[1], own[2], own[3])
		x.dueAt(v, d.next[v])
	}
}

// stepJoined does what is due first at two hosts before the end of the window, and
// reports whether there was something.
func (x *Lane) stepJoined(nodes *[2]int32, end units.Time) bool {
	n, d := x.n, x.n.division
	now, host, wakes := units.Never, -1, false
	for i, v := range nodes {
		at := n.nodes[v].first
		if t := min(d.due[3*at], d.due[3*at+1], d.due[3*at+2]); t < end && (t < now || t == now && wakes) {
			now, host, wakes = t, i, false
		}
		own := &d.alarms[n.nodes[v].index].due
		if t := min(own[0], own[1], own[2], own[3]); t < d.wakes && t < now {
			now, host, wakes = t, i, true
		}
	}
	if host < 0 {
		return false
	}
	v := nodes[host]
	at, index := n.nodes[v].first, n.nodes[v].index
	x.first, x.due, x.bits = at, d.due[3*at:3*at+3], d.set[d.sets[v]:d.sets[v+1]]
	x.events++
	if wakes {
		a := &d.alarms[index]
		alarm := 0
		for a.due[alarm] != now {
			alarm++
		}
		a.due[alarm] = units.Never
		a.waker.Wake(x, now, uint32(alarm))
		return true
	}
	if pause := n.alarm(at, 0) ^ 1; x.due[pause] == now {
		x.due[pause] = units.Never
		x.takePause(now, at, pause)
		return true
	}
	in := &n.inlets[at]
	e := *in.first(x)
	x.due[2] = units.Never
	if in.take(); in.taken != d.known[at].packets {
		x.due[2] = in.first(x).at(now)
	}
	if e.in() == severed {
		x.lose(at, e)
	} else {
		x.deliver(now, index, e)
	}
	return true
}
