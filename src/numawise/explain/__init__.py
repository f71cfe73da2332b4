"""Why a pod was refused, and the smallest changes that would let it in."""
