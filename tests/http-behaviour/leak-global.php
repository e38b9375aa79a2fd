<?php
// A global variable.
echo isset($planted) ? 'leaked' : 'clean';
$planted = true;
