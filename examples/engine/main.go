// Command engine is sluice with one more engine in it, aimd: the end of
// docs/tutorial.md.
package main

import (
	"github.com/sluice-rdma/sluice/cli"
	_ "github.com/sluice-rdma/sluice/examples/engine/aimd" // registers the engine
)

func main() { cli.Main() }
