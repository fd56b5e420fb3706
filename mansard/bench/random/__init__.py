"""Problems drawn at random, raced against every peer that takes them: `mansard bench random`."""
