package verbstest

import (
	"fmt"
	"time"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
)

// addressTests test the addressing from one queue pair to another.
var addressTests = []test{
	{"P_Key index", func(r *rig) error {
		p, err := r.A.Port(r.Port)
		if err != nil {
			return err
		}
		if p.PKeys < 1 {
			return fmt.Errorf("port %d has %d P_Keys", r.Port, p.PKeys)
		}
		if keys, ok := verbs.Bottom(r.A).(verbs.PKeyDevice); ok {
			if key, err := keys.PKey(r.Port, 0); err != nil || key&0x7fff == 0 {
				return fmt.Errorf("P_Key 0 is %#x: %w", key, err)
			}
			_, errHigh := keys.PKey(r.Port, p.PKeys)
			_, errLow := keys.PKey(r.Port, -1)
			_, errPort := keys.PKey(r.A.Attr().PhysPorts+1, 0)
			for _, err := range []error{errHigh, errLow, errPort} {
				if err := expect("a P_Key that is not there", err, verbs.ErrInvalid); err != nil {
					return err
				}
			}
		}
		q, err := r.newQP(&r.a, ib.RC, nil)
		if err != nil {
			return err
		}
		a := verbs.QPAttr{State: ib.Init, Port: r.Port, PKeyIndex: p.PKeys, Access: everything}
		if err := expect("a P_Key index that is not there", q.Modify(a, verbs.ResetToInitRC|verbs.AttrPKeyIndex), verbs.ErrInvalid); err != nil {
			return err
		}
		a.PKeyIndex = p.PKeys - 1
		if err := q.Modify(a, verbs.ResetToInitRC|verbs.AttrPKeyIndex); err != nil {
			return err
		}
		if a, err = q.Query(); err == nil && a.PKeyIndex != p.PKeys-1 {
			err = fmt.Errorf("it has the P_Key index %d, want %d", a.PKeyIndex, p.PKeys-1)
		}
		return err
	}},
	{"a port and a LID in an address", func(r *rig) error {
		p, err := r.A.Port(r.Port)
		if err != nil {
			return err
		}
		for _, c := range []struct {
			what   string
			change func(*verbs.AddressVector)
			want   error
		}{
			{"its port", func(v *verbs.AddressVector) { v.Port = r.Port }, nil},
			{"a port that is not there", func(v *verbs.AddressVector) { v.Port = r.A.Attr().PhysPorts + 1 }, verbs.ErrInvalid},
			{"a LID on Ethernet", func(v *verbs.AddressVector) { v.LID = 7 }, verbs.ErrInvalid},
		} {
			if p.LinkName != "Ethernet" {
				return fmt.Errorf("%s: %w", p.LinkName, verbs.ErrNotSupported)
			}
			q, err := r.newQP(&r.a, ib.RC, nil)
			if err != nil {
				return err
			}
			if err := q.Modify(verbs.QPAttr{State: ib.Init, Port: r.Port, Access: everything}, verbs.ResetToInitRC); err != nil {
				return err
			}
			a := verbs.QPAttr{
				State: ib.RTR, PathMTU: 1024, DestQPN: 5, MaxDestRdAtomic: 1, MinRNRTimer: 12,
				AV: verbs.AddressVector{GID: r.b.gid, SGIDIndex: r.a.index, HopLimit: 64},
			}
			c.change(&a.AV)
			if err := expect(c.what, q.Modify(a, verbs.InitToRTRRC), c.want); err != nil {
				return err
			}
		}
		return nil
	}},
	{"static rate", func(r *rig) error {
		const rate, n = 2_500_000_000, 1 << 20
		qa, _, err := r.connected(func(_ *verbs.QPInitAttr, p *verbs.RCParams) { p.StaticRate = rate + 1_000_000 })
		if err != nil {
			return err
		}
		a, err := qa.Query()
		if err != nil {
			return err
		}
		if a.AV.StaticRate == 0 && !verbs.Simulated(r.A) { // the kernel's soft-RoCE takes one and forgets it
			return fmt.Errorf("a static rate that the device keeps: %w", verbs.ErrNotSupported)
		}
		if a.AV.StaticRate < rate || a.AV.StaticRate > rate+1_000_000 {
			return fmt.Errorf("a static rate of %d bit/s was rounded to %d", rate, a.AV.StaticRate)
		}
		_, lmr, err := r.register(&r.a, n, 1)
		if err != nil {
			return err
		}
		_, rmr, err := r.register(&r.b, n, 2)
		if err != nil {
			return err
		}
		start := r.A.Now()
		if err := post(qa, verbs.SendWR{
			Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(lmr, 0, n)}, RemoteAddr: rmr.Addr(), RKey: rmr.RKey(),
		}); err != nil {
			return err
		}
		if _, err := succeed(&r.a, 1); err != nil {
			return err
		}
		// Whether hardware heeds it is for a person to measure.
		least := time.Duration(n*8) * time.Second / (rate + 1_000_000) * 95 / 100
		if took := r.A.Now() - start; verbs.Simulated(r.A) && took < least {
			return fmt.Errorf("%d bytes took %v, want at least %v", n, took, least)
		}
		return nil
	}},
}
