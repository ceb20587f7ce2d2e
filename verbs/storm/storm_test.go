package storm

import (
	"os"
	"strconv"
	"testing"

	_ "github.com/sluice-rdma/sluice/cc/all"
)

func TestStorm(t *testing.T) {
	from, n := uint64(1), uint64(200)
	if s := os.Getenv("SEEDS"); s != "" {
		n, _ = strconv.ParseUint(s, 10, 64)
	}
	if s := os.Getenv("FROM"); s != "" {
		from, _ = strconv.ParseUint(s, 10, 64)
	}
	var req, fail, pkts uint64
	for seed := from; seed < from+n; seed++ {
		c := Default()
		c.Seed = seed
		if s := os.Getenv("PROVIDER"); s != "" {
			c.Provider = s
		}
		c.Shim = os.Getenv("SHIM")
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		req, fail, pkts = req+r.Requests, fail+r.Failed, pkts+r.Packets
		if r.Failure != "" {
			t.Errorf("seed %d: %s\n%s", seed, r.Failure, r.Stack)
			if r.Stack != "" {
				return
			}
		}
	}
	t.Logf("%d requests, %d failed, %d packets", req, fail, pkts)
}
