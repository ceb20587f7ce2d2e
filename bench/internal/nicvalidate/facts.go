package nicvalidate

import (
	"fmt"
	"slices"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/units"
	"github.com/sluice-rdma/sluice/verbs"
)

func factRows() []Measurement {
	return []Measurement{
		{Row: "C1", How: "the device's attributes", Figure: func(at string) (float64, error) {
			a, err := attributes(at)
			return a.CoreClockHz / 1e6, err
		}},
		{Row: "C2", How: "the device's attributes; mlx5: cx5, mlx4: cx3", Figure: func(at string) (float64, error) {
			a, err := attributes(map[string]string{"mlx5": "cx5", "mlx4": "cx3"}[at])
			return float64(a.ClockBits), err
		}},
		{Row: "C4", Preset: "cx6dx", How: "the counter read twice, 100 ms apart, against the host's clock", Figure: drift},
		{Row: "S1", Preset: "cx5, cx6dx", How: "the least and the most are set on a queue pair, which here is a reliable connection", Figure: rateRange},
		{Row: "S3", Preset: "cx6dx", How: "a queue pair limited to one message of 1000 B in 10 us; intervals between 2000 of them by the receiver's counter", Figure: intervals},
	}
}

// pairOf returns two machines back to back at 100 Gbps.
func pairOf(name string) ([]*host, error) {
	cfg, err := preset(name)
	if err != nil {
		return nil, err
	}
	return newHosts(2, true, back, cfg)
}

func attributes(name string) (verbs.DeviceAttr, error) {
	hosts, err := pairOf(name)
	if err != nil {
		return verbs.DeviceAttr{}, err
	}
	return hosts[0].dev.Attr(), nil
}

func drift(at string) (float64, error) {
	if at != "typical" {
		return 0, noPoint(at)
	}
	hosts, err := pairOf("cx6dx")
	if err != nil {
		return 0, err
	}
	dev := hosts[0].dev
	var host [2]units.Time
	var nic [2]uint64
	for i := range 2 {
		verbs.Sleep(dev, 100*time.Millisecond)
		before := dev.NowPrecise()
		if nic[i], err = dev.ReadClock(); err != nil {
			return 0, err
		}
		host[i] = (before + dev.NowPrecise()) / 2
	}
	seconds := float64(nic[1]-nic[0]) / dev.Attr().CoreClockHz
	return (seconds/(host[1]-host[0]).Seconds() - 1) * 1e6, nil
}

// rateRange is the least or the most that queue pairs of both NICs take.
func rateRange(at string) (float64, error) {
	kbps := map[string]int64{"least": 1, "most": 100_000_000}[at]
	if kbps == 0 {
		return 0, noPoint(at)
	}
	for _, name := range []string{"cx5", "cx6dx"} {
		hosts, err := pairOf(name)
		if err != nil {
			return 0, err
		}
		qp, _, err := connect(hosts[0], hosts[1], 16, 0, 0, 1024)
		if err != nil {
			return 0, err
		}
		limited, ok := qp.(verbs.RateLimitQP)
		if !ok {
			return 0, &Missing{"rate limits of queue pairs"}
		}
		if err := limited.SetRateLimit(kbps * 1000); err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return float64(kbps), nil
}

// intervals is row S3, by percentile.
func intervals(at string) (float64, error) {
	var percent int
	if _, err := fmt.Sscanf(at, "p%d", &percent); err != nil {
		return 0, noPoint(at)
	}
	hosts, err := pairOf("cx6dx")
	if err != nil {
		return 0, err
	}
	a, b := hosts[0], hosts[1]
	const (
		messages = 2000
		size     = 1000
		schedule = 10 * units.Microsecond
	)
	qa, qb, err := connect(a, b, messages, queueDepth, 0, 1024)
	if err != nil {
		return 0, err
	}
	recvs := make([]verbs.RecvWR, 0, queueDepth)
	for range cap(recvs) {
		recvs = append(recvs, verbs.RecvWR{SGL: []verbs.SGE{verbs.SGEOf(b.mr, 0, size)}})
	}
	if _, err := qb.PostRecv(recvs); err != nil {
		return 0, err
	}
	if err := qa.(verbs.RateLimitQP).SetRateLimit(int64(float64(size*8) / schedule.Seconds())); err != nil {
		return 0, err
	}
	for range messages {
		if _, err := qa.PostSend([]verbs.SendWR{{Opcode: ib.WRSend, SGL: []verbs.SGE{verbs.SGEOf(a.mr, 0, size)}}}); err != nil {
			return 0, err
		}
	}
	stamps := make([]uint64, 0, messages)
	wcs := make([]verbs.WC, 64)
	for range messages + 100 {
		verbs.Sleep(a.dev, schedule.Duration())
		n, err := b.recv.Poll(wcs)
		if err != nil {
			return 0, err
		}
		for _, wc := range wcs[:n] {
			if wc.Status != ib.WCSuccess {
				return 0, &verbs.StatusError{WC: wc}
			}
			stamps = append(stamps, wc.Timestamp)
		}
		if _, err := qb.PostRecv(recvs[:n]); err != nil {
			return 0, err
		}
	}
	if len(stamps) != messages {
		return 0, fmt.Errorf("%d of %d messages came", len(stamps), messages)
	}
	gaps := make([]uint64, 0, messages)
	for i := 1; i < messages; i++ {
		gaps = append(gaps, stamps[i]-stamps[i-1])
	}
	slices.Sort(gaps)
	return float64(gaps[len(gaps)*percent/100]) / b.dev.Attr().CoreClockHz * 1e9, nil
}
