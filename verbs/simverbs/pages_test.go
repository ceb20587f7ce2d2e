package simverbs_test

import (
	"testing"

	"github.com/sluice-rdma/sluice/ib"
	"github.com/sluice-rdma/sluice/verbs"
	"github.com/sluice-rdma/sluice/verbs/simverbs"
)

// Of a region larger than the translations that a cx3 holds, those of huge pages fit.
func TestHugePagesNeedFewTranslations(t *testing.T) {
	read := func(network string, flags ib.AccessFlags) int {
		open(t, "sim:"+network+"/h0?nic=cx3") // makes the network
		a, b := pair(t, network)
		local, err := a.pd.RegMR(make([]byte, 64), ib.AccessLocalWrite)
		if err != nil {
			t.Fatal(err)
		}
		const size = 256 << 20 // 512 KiB of translations; on the chip are 256
		remote, err := b.pd.RegMR(make([]byte, size), ib.AccessLocalWrite|ib.AccessRemoteWrite|flags)
		if err != nil {
			t.Fatal(err)
		}
		err = verbs.Run(a.dev, func() error {
			wc := make([]verbs.WC, 1)
			for i := range 256 {
				at := remote.Addr() + uint64(i)*size/256
				if _, err := a.qp.PostSend([]verbs.SendWR{{Opcode: ib.WRRDMAWrite, Flags: verbs.SendSignaled, SGL: []verbs.SGE{verbs.SGEOf(local, 0, 64)}, RemoteAddr: at, RKey: remote.RKey()}}); err != nil {
					return err
				}
				for n := 0; n == 0; {
					if n, err = a.cq.Poll(wc); err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		_, fromHost := b.dev.(*simverbs.Device).NIC().PCIeBytes()
		return int(fromHost["translation"])
	}
	small, huge := read("smallpages", 0), read("hugepages", ib.AccessHugeTLB)
	// Each write is to a line of its own, of 64 bytes behind a header.
	if small < 256*64 || huge != 0 {
		t.Errorf("%d bytes of translations with pages of 4 KiB, %d with huge pages", small, huge)
	}
}
