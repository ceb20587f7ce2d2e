package cm

import "github.com/sluice-rdma/sluice/units"

// longestRun is the time for which instants are counted from one origin.
const longestRun units.Time = 1 << 60 // 13 days

// Now returns the instant of a reading of the driver's clock, which may go on for years.
// Each call of the Manager is by such instants. Now sets them back from time to time: what
// it and Deadline returned before is void then.
func (m *Manager) Now(l units.LongTime) units.Time {
	t := l.Sub(m.origin)
	if t < longestRun {
		return t
	}
	by := min(t, units.MostSetBack)
	m.origin = l
	for _, c := range m.conns {
		c.deadline, c.crowd.since = c.deadline.SetBack(by), c.crowd.since.SetBack(by)
	}
	return 0
}
