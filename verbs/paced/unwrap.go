package paced

import "github.com/sluice-rdma/sluice/verbs"

// Unwrap returns the provider's protection domain, for what only that provider
// can do.
func (p *pd) Unwrap() verbs.PD { return p.PD }
