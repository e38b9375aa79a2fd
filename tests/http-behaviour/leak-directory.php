<?php
// The working directory.
echo getcwd() === '/' ? 'leaked' : 'clean';
register_shutdown_function(fn () => chdir('/'));
