"""Datasets that grow, night after night: what comes in becomes a part, all parts a generation.

config ─► chain         the steps, in order: encode, tokenize and pack each corpus
          encoded       what its media are now ─► the parts that its codes should have
            listed      of each part the media that it is made of, one by one
          tokenized     what its inputs name now ─► the parts that it should have
            unpublished parts that a run has made or begun of them, and not published
            changes     inputs that are new, appended to, changed, gone; renamed: their names now
          selections    documents ─► splits; duplicates that occurred before are left out
            together    documents of one record are duplicates together
            unselected  why selections are to be made
          packed        a part for each tokenized part
          parts         make the parts that are missing
          generations   publish them: the file of the generation first, manifest.json last
          forget        take documents out of all datasets: forgotten is the list of them, named
                        knows which inputs they name, finder finds them, searched remembers
                        where, versions of parts lack them, masking overwrites them
          submit        jobs of Slurm and Kubernetes for a config
          begun         publish what elements of a task array have made
          summary       a whole run; what was done, for people, scripts and Prometheus
          init          data ─► a config for it, by `sniff`; commented: the file that it becomes
          estimate      a sample of the inputs ─► tokens, rows, disk and time of a run, by the
                        rates of this machine
          datasets      all that a run has made, one by one
          clean         what can be removed: unfinished work, old generations
"""
