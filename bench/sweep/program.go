package sweep

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"sync"

	"github.com/sluice-rdma/sluice/internal/version"
)

// thisProgram names the program that runs: what it was built from, and where that does not
// settle it, a hash of the executable. Two programs of one name give the same results.
// It is empty if the executable can't be read.
var thisProgram = sync.OnceValue(func() string {
	id := version.Get()
	if id.Settled() {
		return fmt.Sprintf("%v %s %s", id, id.Go, id.Arch)
	}
	name, err := os.Executable()
	if err != nil {
		return ""
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return fmt.Sprintf("%v %s", id, hex.EncodeToString(sum[:])[:12])
})
