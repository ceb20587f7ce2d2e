// Command seeds runs storms for tools/mutants: `sluice storm` without the rest of the
// command, since it is built anew for each fault. It prints the result as JSON.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	_ "github.com/sluice-rdma/sluice/cc/timely" // for -shim
	"github.com/sluice-rdma/sluice/verbs/storm"
)

// Outcome is the result of the seeds.
type Outcome struct {
	Seeds  uint64 `json:"seeds"` // that ran, the failed one included
	Failed string `json:"failed,omitempty"`
}

func main() {
	c := storm.Default()
	c.Patience = 20 * time.Second
	flag.StringVar(&c.Provider, "provider", c.Provider, "soft or sim")
	flag.StringVar(&c.Shim, "shim", "", "engine of the shim, timely or none; no shim if empty")
	n := flag.Uint64("seeds", 100, "how many")
	flag.Parse()
	tally, failed, err := storm.Seeds(context.Background(), c, *n, 1, nil)
	if err != nil {
		fmt.Fprintln(os.Stderr, "seeds:", err)
		os.Exit(2)
	}
	o := Outcome{Seeds: tally.Seeds}
	if failed != nil {
		o.Failed = failed.Failure
	}
	if err := json.NewEncoder(os.Stdout).Encode(o); err != nil {
		fmt.Fprintln(os.Stderr, "seeds:", err)
		os.Exit(2)
	}
}
