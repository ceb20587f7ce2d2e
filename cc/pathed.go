package cc

// Pathed is an Engine that takes part in the choice of path, where switches choose
// among equal paths by a hash of fields that the sender may change, such as the UDP
// source port of RoCEv2.
//
// A driver looks at Path after each call. When it has changed, the driver sends nothing
// new until all packets under way have been acknowledged, and continues on another
// path. So packets of one flow do not overtake one another, which a go-back-N transport
// would take for loss. Packets lost meanwhile are sent again at once, by the new path.
type Pathed interface {
	Engine
	// Path numbers the paths that the flow has been given so far, from 0, its own by
	// the connection's entropy. Unlike numbers need not be unlike paths: a hash decides.
	Path() uint32
}

// PathHash returns the entropy of a flow's path of that number, from the flow's own.
func PathHash(own, path uint32) uint32 {
	return own + path*0x9e3779b1 // an odd number: no two of 2^32 paths are alike
}
